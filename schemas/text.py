"""Text to token ids: the one tokenizer that Spark, the API, training and golden rows share.

A tokenizer is set up once and not changed again, so threads may share it: "Already borrowed" is said to those who
change its padding while others encode. Each text is encoded by itself, so that its pool of threads, which a forked
process would lack, is never started.
Ids are kept without padding; whoever runs a batch pads it to the length of the rows that are in it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from schemas.manifest import TextFeature

if TYPE_CHECKING:  # a bundle without text does not load it
    from tokenizers import Tokenizer

Int64Array = npt.NDArray[np.int64]

MAX_TOKENIZER_BYTES = 64 << 20
_PADDING_TOKENS = ("[PAD]", "<pad>", "<|pad|>")
_RANDOM_SPLITS = ("dropout", "alpha", "nbest_size")


class TokenizerError(ValueError):
    """A `tokenizer.json` that may not be used; the message says why."""


class TextProblem(ValueError):
    """A text that has no token ids; the message says why."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token ids of n texts: of text i they are flat[starts[i] : starts[i + 1]].

    Attributes:
        buckets: the padded lengths a row may have, ascending.
    """

    flat: Int64Array
    starts: Int64Array
    buckets: Int64Array
    padding_id: int

    @property
    def counts(self) -> Int64Array:
        """(n,) tokens of each text."""
        return np.diff(self.starts)

    @property
    def lengths(self) -> Int64Array:
        """(n,) the padded length of each text where it is alone."""
        return self.buckets[np.searchsorted(self.buckets, self.counts)]

    def length_for(self, rows: Int64Array) -> int:
        """The least padded length that holds each of these texts."""
        most = (self.starts[rows + 1] - self.starts[rows]).max(initial=0)
        return int(self.buckets[np.searchsorted(self.buckets, most)])

    def padded(self, rows: Int64Array, length: int, part: str | None) -> Int64Array:
        """(len(rows), length) token ids, or of part `mask` which of them are; what is over the length is cut."""
        starts = self.starts[rows]
        counts = np.minimum(self.starts[rows + 1] - starts, length)
        is_token = np.arange(length) < counts[:, None]
        if part == "mask":
            return np.asarray(is_token, dtype=np.int64)
        out = np.full(is_token.shape, self.padding_id, dtype=np.int64)
        if len(rows):
            ends = starts + counts
            out[is_token] = np.concatenate([self.flat[a:b] for a, b in zip(starts, ends, strict=True)])
        return out


class TextEncoder:
    """The tokenizer, as one text feature uses it.

    Raises:
        TokenizerError: it knows no padding, pads on the left, or cannot keep to the feature's `max_tokens`.
    """

    def __init__(self, feature: TextFeature, shared: "_Shared") -> None:
        self._feature, self._shared = feature, shared
        self._buckets = np.array(feature.length_buckets, dtype=np.int64)
        self._padding_id = shared.padding_id if feature.padding_id is None else feature.padding_id
        if self._padding_id is None:
            raise TokenizerError(f"it names no padding token, and feature {feature.name} no padding_id")
        try:
            for text in ("", "a " * (feature.max_tokens + 1)):
                self.encode(text)
        except TextProblem as error:
            raise TokenizerError(f"it does not fit feature {feature.name}: {error}") from None

    def encode(self, text: str) -> list[int]:
        """Token ids, at most `max_tokens`. Raises TextProblem."""
        ids = self._shared.encode(text[: self._feature.max_characters])
        if len(ids) > self._feature.max_tokens:
            raise TextProblem(f"gives {len(ids)} tokens where {self._feature.max_tokens} may be kept")
        return ids

    def gather(self, ids: Sequence[Sequence[int]]) -> Tokens:
        """The ids of n texts in one."""
        assert self._padding_id is not None
        starts = np.zeros(len(ids) + 1, dtype=np.int64)
        np.cumsum([len(some) for some in ids], out=starts[1:])
        flat = np.fromiter((one for some in ids for one in some), dtype=np.int64, count=int(starts[-1]))
        return Tokens(flat, starts, self._buckets, self._padding_id)


class _Shared:
    """A tokenizer that nothing changes once it is made. `padding_id`: its own, if it has one."""

    def __init__(self, raw: bytes, max_tokens: int) -> None:
        self._tokenizer = _parse(raw)
        self.padding_id = _padding_id(self._tokenizer)
        if random := [name for name in _RANDOM_SPLITS if getattr(self._tokenizer.model, name, None)]:
            raise TokenizerError(f"its model has {random[0]}: one text would give other tokens each time")
        self._tokenizer.no_padding()
        own = self._tokenizer.truncation or {}
        kept = {name: own[name] for name in ("strategy", "direction") if name in own}
        self._tokenizer.enable_truncation(max_tokens, **kept)

    def encode(self, text: str) -> list[int]:
        return list(_called("cannot be tokenized", TextProblem, self._tokenizer.encode, text).ids)


def text_encoders(features: Iterable[TextFeature], tokenizer_json: bytes) -> Mapping[str, TextEncoder]:
    """By feature name.

    Raises:
        TokenizerError: the document is too large, is no tokenizer, splits at random, or does not fit a feature.
    """
    if len(tokenizer_json) > MAX_TOKENIZER_BYTES:
        raise TokenizerError(f"it is over {MAX_TOKENIZER_BYTES >> 20} MiB")
    shared: dict[int, _Shared] = {}  # by what it is set to: a large vocabulary takes memory and time to parse
    encoders = {}
    for feature in features:
        if feature.max_tokens not in shared:
            shared[feature.max_tokens] = _Shared(tokenizer_json, feature.max_tokens)
        encoders[feature.name] = TextEncoder(feature, shared[feature.max_tokens])
    return encoders


def _parse(raw: bytes) -> "Tokenizer":
    from tokenizers import Tokenizer

    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise TokenizerError("it is not UTF-8") from None
    tokenizer: Tokenizer = _called("it is no tokenizer", TokenizerError, Tokenizer.from_str, text)
    return tokenizer


def _padding_id(tokenizer: "Tokenizer") -> int | None:
    padding = tokenizer.padding
    if padding is None:
        known = (tokenizer.token_to_id(token) for token in _PADDING_TOKENS)
        return next((found for found in known if found is not None), None)
    if padding["direction"] != "right":
        raise TokenizerError(f"it pads on the {padding['direction']}, and only padding on the right is served")
    return int(padding["pad_id"])


def _called(failure: str, error_type: type[ValueError], call: Callable[[str], Any], text: str) -> Any:
    """What the library gives. It is Rust: what it did not foresee comes as a panic, which is no `Exception`."""
    try:
        return call(text)
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise error_type(f"{failure}: {str(error)[:200]}") from None
