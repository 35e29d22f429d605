"""What of a transformer fits on how many cards, and what sets its pace. Pure; bytes, unless a name says otherwise.

Capacity and bandwidth of memory are different limits with different cures, so each is called by its whole name.
GB are 10^9 bytes, as cards are sold; GiB are 2^30.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import ceil, inf

from online.planning.checks import OutOfRange, counts, not_negative, positive

GB, GIB = 10**9, 2**30
BYTES_OF = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "int8": 1.0, "int4": 0.5}


class Limit(StrEnum):
    """What stops it from being faster, or from holding more."""

    CAPACITY = "memory capacity"
    BANDWIDTH = "memory bandwidth"
    COMPUTE = "compute"


@dataclass(frozen=True, slots=True)
class Transformer:
    """A decoder. `kv_heads` is below the number of query heads where these share keys and values."""

    parameters: float
    layers: int
    hidden: int
    ffn_hidden: int
    kv_heads: int
    head_dim: int

    def check(self) -> None:
        """Raises OutOfRange."""
        positive(parameters=self.parameters)
        counts(
            layers=self.layers,
            hidden=self.hidden,
            ffn_hidden=self.ffn_hidden,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
        )


# Meta, "The Llama 3 Herd of Models", arXiv 2407.21783, table 3; parameters as the model's name rounds them.
LLAMA_3_70B = Transformer(70e9, layers=80, hidden=8192, ffn_hidden=28672, kv_heads=8, head_dim=128)


@dataclass(frozen=True, slots=True)
class Card:
    """`reserve_gb` is taken by the driver, the CUDA context and fragments before anything is loaded."""

    memory_gb: float
    reserve_gb: float = 0.0
    bandwidth_gb_s: float = 2039.0
    tflops: float = 312.0

    def check(self) -> None:
        """Raises OutOfRange."""
        positive(memory_gb=self.memory_gb, bandwidth_gb_s=self.bandwidth_gb_s, tflops=self.tflops)
        not_negative(reserve_gb=self.reserve_gb)
        if self.reserve_gb >= self.memory_gb:
            raise OutOfRange("reserve_gb", self.reserve_gb, f"below memory_gb, which is {self.memory_gb:g}")


def bytes_of(dtype: str) -> float:
    """Bytes of one number. Raises OutOfRange."""
    if dtype not in BYTES_OF:
        raise OutOfRange("dtype", repr(dtype), f"one of {', '.join(BYTES_OF)}")
    return BYTES_OF[dtype]


def weight_bytes(parameters: float, dtype: str) -> float:
    """Parameters times bytes of each; scales and zero points of quantised weights (some per cent) are left out."""
    positive(parameters=parameters)
    return parameters * bytes_of(dtype)


def kv_bytes_per_token(layers: int, kv_heads: int, head_dim: int, dtype: str = "fp16") -> float:
    """2 (key and value) x layers x KV heads x head dimension x bytes.

    Source: Kwon et al., "Efficient Memory Management for LLM Serving with PagedAttention", arXiv 2309.06180,
    section 3, with KV heads for grouped queries (Ainslie et al., arXiv 2305.13245).
    """
    counts(layers=layers, kv_heads=kv_heads, head_dim=head_dim)
    return 2 * layers * kv_heads * head_dim * bytes_of(dtype)


def activation_bytes(rows: int, tokens: int, hidden: int, ffn_hidden: int, dtype: str) -> float:
    """The most that is alive at once in a forward pass: one layer's input, its residual, and the widest step.

    rows x tokens x (2 hidden + max(3 hidden, 2 ffn)) x bytes: queries, keys and values, or both halves of a gated
    feed-forward layer. Layers follow one another, so they share the space; attention is taken not to store its
    tokens x tokens scores (Dao et al., FlashAttention, arXiv 2205.14135). An estimate by counting tensors.
    """
    counts(rows=rows, tokens=tokens, hidden=hidden, ffn_hidden=ffn_hidden)
    return rows * tokens * (2 * hidden + max(3 * hidden, 2 * ffn_hidden)) * bytes_of(dtype)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """One copy of a model on its cards. `*_bytes` are of all cards together, `card_*` of the fullest one.

    Attributes:
        conversations: that fit at the length asked for; 0 where the weights alone do not.
        step_ms: one token for each of `at_conversations`.
        step_limit: what sets its time.
        compute_from: conversations from which computing takes longer than reading memory; inf for never.
        limit: what to relieve first for what was wanted.
    """

    cards: int
    weight_bytes: float
    activation_bytes: float
    kv_bytes_per_token: float
    conversation_bytes: float
    free_bytes: float
    card_weight_bytes: float
    conversations: int
    at_conversations: int
    step_ms: float
    step_limit: Limit
    compute_from: float
    limit: Limit
    why: str


def plan_memory(
    model: Transformer,
    card: Card,
    *,
    dtype: str = "fp16",
    kv_dtype: str = "fp16",
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    tokens: int = 4096,
    prefill_rows: int = 0,
    wanted: int | None = None,
) -> MemoryPlan:
    """How many conversations of `tokens` a copy holds, and whether capacity, bandwidth or compute is the limit.

    Tensor parallelism splits each layer over cards (KV heads by whole heads), pipeline parallelism the layers (by
    whole layers): the fullest card counts. A decoding step reads the weights once and each conversation's KV
    cache, and does 2 FLOP a parameter and conversation; cards of one pipeline take turns at it, so only tensor
    parallelism makes a step shorter. The longer of the two times is the roofline's answer (Williams et al.,
    "Roofline", CACM 52(4), 2009). Communication is left out: `strategy.py` counts it.

    Args:
        prefill_rows: prompts of `tokens` tokens whose activations must have room at once; 0 leaves them out.
        wanted: conversations at once that the plan is judged by; None for as many as fit.

    Raises:
        OutOfRange: names the field.
    """
    split = _Split(model, card, dtype, kv_dtype, tensor_parallel, pipeline_parallel, tokens, prefill_rows)
    split.check()
    if wanted is not None:
        counts(wanted=wanted)
    conversations = max(0, int(split.card_room // split.card_conversation_bytes))
    at = wanted or max(1, conversations)
    step_ms, step_limit = split.step(at)
    limit, why = _verdict(split.card_room, conversations, wanted, step_limit)
    return MemoryPlan(
        cards=split.cards,
        weight_bytes=split.weight_bytes,
        activation_bytes=split.activation_bytes,
        kv_bytes_per_token=split.kv_token_bytes,
        conversation_bytes=split.kv_token_bytes * tokens,
        free_bytes=split.free_bytes,
        card_weight_bytes=split.card_weight_bytes,
        conversations=conversations,
        at_conversations=at,
        step_ms=step_ms,
        step_limit=step_limit,
        compute_from=split.compute_from,
        limit=limit,
        why=why,
    )


@dataclass(frozen=True, slots=True)
class _Split:
    """The arithmetic of one copy on its cards."""

    model: Transformer
    card: Card
    dtype: str
    kv_dtype: str
    tensor_parallel: int
    pipeline_parallel: int
    tokens: int
    prefill_rows: int

    def check(self) -> None:
        self.model.check()
        self.card.check()
        counts(tensor_parallel=self.tensor_parallel, pipeline_parallel=self.pipeline_parallel, tokens=self.tokens)
        not_negative(prefill_rows=self.prefill_rows)
        if self.pipeline_parallel > (most := self.model.layers):
            raise OutOfRange(
                "pipeline_parallel", self.pipeline_parallel, f"from 1 to the number of layers, {most}"
            )

    @property
    def cards(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def weight_bytes(self) -> float:
        return weight_bytes(self.model.parameters, self.dtype)

    @property
    def kv_token_bytes(self) -> float:
        return kv_bytes_per_token(self.model.layers, self.model.kv_heads, self.model.head_dim, self.kv_dtype)

    @property
    def activation_bytes(self) -> float:
        if not self.prefill_rows:
            return 0.0
        shape = self.model.hidden, self.model.ffn_hidden
        return activation_bytes(self.prefill_rows, self.tokens, *shape, self.dtype)

    @property
    def _stage_layers(self) -> int:
        """Of the fullest stage."""
        return ceil(self.model.layers / self.pipeline_parallel)

    @property
    def card_weight_bytes(self) -> float:
        return self.weight_bytes * self._stage_layers / self.model.layers / self.tensor_parallel

    @property
    def card_conversation_bytes(self) -> float:
        heads = ceil(self.model.kv_heads / self.tensor_parallel)
        return self.tokens * kv_bytes_per_token(self._stage_layers, heads, self.model.head_dim, self.kv_dtype)

    @property
    def card_room(self) -> float:
        room = (self.card.memory_gb - self.card.reserve_gb) * GB - self.card_weight_bytes
        return room - self.activation_bytes / self.tensor_parallel

    @property
    def free_bytes(self) -> float:
        room = self.cards * (self.card.memory_gb - self.card.reserve_gb) * GB - self.weight_bytes
        return room - self.activation_bytes * self.pipeline_parallel

    @property
    def _read_bytes_per_s(self) -> float:
        return self.tensor_parallel * self.card.bandwidth_gb_s * GB

    @property
    def _flop_per_s(self) -> float:
        return self.tensor_parallel * self.card.tflops * 1e12

    def step(self, conversations: int) -> tuple[float, Limit]:
        """Milliseconds for one token of each, and what sets them."""
        reads = self.weight_bytes + conversations * self.kv_token_bytes * self.tokens
        bandwidth_s = reads / self._read_bytes_per_s
        compute_s = 2 * self.model.parameters * conversations / self._flop_per_s
        if compute_s > bandwidth_s:
            return 1e3 * compute_s, Limit.COMPUTE
        return 1e3 * bandwidth_s, Limit.BANDWIDTH

    @property
    def compute_from(self) -> float:
        """Conversations n at which both times are equal: (W + n c) / bandwidth = 2 P n / FLOPS; inf for none."""
        conversation_s = self.kv_token_bytes * self.tokens / self._read_bytes_per_s
        gain_s = 2 * self.model.parameters / self._flop_per_s - conversation_s
        return self.weight_bytes / self._read_bytes_per_s / gain_s if gain_s > 0 else inf


def _verdict(room: float, conversations: int, wanted: int | None, step_limit: Limit) -> tuple[Limit, str]:
    if room <= 0:
        return Limit.CAPACITY, "the weights (and activations) alone do not fit: more cards, fewer bytes a weight"
    if conversations == 0:
        return Limit.CAPACITY, "the weights fit, but not one conversation: more cards, fewer bytes, fewer tokens"
    if wanted is not None and wanted > conversations:
        return Limit.CAPACITY, f"{conversations} conversations fit, {wanted} are wanted: more cards or fewer bytes"
    if step_limit is Limit.BANDWIDTH:
        return step_limit, "a token takes as long as reading weights and KV cache: fewer bytes, more cards to read"
    return step_limit, "a token takes as long as its arithmetic: a card with more of it"
