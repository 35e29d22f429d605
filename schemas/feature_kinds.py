"""What a model's features and input tensors are said to be: the parts of a manifest that a transform is made from.

Owns the documents only; `features.py` and `text.py` turn values into tensors by them.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    model_validator,
)

# Most that a manifest may ask for: a row of the longest text is then at most 1 MB of token ids.
MAX_TOKENS = 1 << 17
# Tokens are about four characters in English; a text may be much sparser before its end goes unread.
_CHARACTERS_A_TOKEN = 32
_MIN_CHARACTERS = 1024


class Document(BaseModel):
    """Frozen, and strict about names: a misspelt field is an error, not a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class NumberFeature(Document):
    """A number. Canonicalised to float32 first, then `(log1p(x) or x) * scale + shift`.

    `missing` stands in for null or absence, before the transform; without it the feature is required.
    """

    type: Literal["number"] = "number"
    name: str
    log1p: bool = False
    scale: FiniteFloat = 1.0
    shift: FiniteFloat = 0.0
    minimum: FiniteFloat | None = None
    maximum: FiniteFloat | None = None
    missing: FiniteFloat | None = None


class BucketFeature(Document):
    """A number whose place among ascending `edges` is the category: edges[i-1] <= x < edges[i] gives i."""

    type: Literal["bucket"] = "bucket"
    name: str
    edges: tuple[FiniteFloat, ...]
    missing: FiniteFloat | None = None

    @model_validator(mode="after")
    def _edges_ascend(self) -> Self:
        if not self.edges or any(a >= b for a, b in pairwise(self.edges)):
            raise ValueError("edges must be at least one number, ascending")
        return self


class CategoryFeature(Document):
    """A text value of a vocabulary: `vocabulary[i]` gives i + 1, anything else 0, or an error where `closed`."""

    type: Literal["category"] = "category"
    name: str
    vocabulary: tuple[str, ...]
    closed: bool = False
    missing: str | None = None

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len(set(self.vocabulary)) != len(self.vocabulary):
            raise ValueError(f"the vocabulary of {self.name} names a value twice")
        return self


def _powers_of_two(given: Mapping[str, Any]) -> tuple[int, ...]:
    most: int = given["max_tokens"]
    return (*(1 << power for power in range(3, most.bit_length()) if 1 << power < most), most)


def _characters(given: Mapping[str, Any]) -> int:
    most: int = given["max_tokens"]
    return max(_MIN_CHARACTERS, _CHARACTERS_A_TOKEN * most)


class TextFeature(Document):
    """Text, as the token ids that the bundle's `tokenizer.json` gives it, special tokens included.

    Attributes:
        max_tokens: more are cut off, by the tokenizer's own rule.
        length_buckets: padded lengths, ascending to `max_tokens`. A row is padded to the least that holds it.
        max_characters: what comes after so many is not read: tokenizing takes time in proportion to the text.
        padding_id: of padding, which is always on the right; without it, the tokenizer's own.
        missing: stands in for null or absence; without it the feature is required. Empty text is a value.
    """

    type: Literal["text"] = "text"
    name: str
    max_tokens: PositiveInt = Field(le=MAX_TOKENS)
    length_buckets: tuple[PositiveInt, ...] = Field(default_factory=_powers_of_two)
    max_characters: PositiveInt = Field(default_factory=_characters)
    padding_id: NonNegativeInt | None = None
    missing: str | None = None

    @model_validator(mode="after")
    def _buckets_ascend(self) -> Self:
        buckets = self.length_buckets
        if not buckets or any(a >= b for a, b in pairwise(buckets)):
            raise ValueError("length_buckets must be at least one length, ascending")
        if buckets[-1] != self.max_tokens:
            raise ValueError(f"the last of length_buckets is {buckets[-1]}, not max_tokens, {self.max_tokens}")
        if buckets[0] == 1 < len(buckets):
            # A program that was exported for lengths above 1 treats a length of 1 as something to broadcast.
            raise ValueError("length_buckets must begin at 2 or more")
        return self


Feature = Annotated[NumberFeature | BucketFeature | CategoryFeature | TextFeature, Field(discriminator="type")]


class InputTensor(Document):
    """One input of the model's forward, (rows, *shape). Its columns are `features`, in this order.

    Of a text feature, which is the only one of its tensors, `part` says which this is: token ids, (rows, L) with L
    one of the feature's length buckets, or the mask, 1 for a token and 0 for padding. Token ids where left out.
    """

    name: str
    dtype: Literal["float32", "int64"]
    features: tuple[str, ...]
    part: Annotated[Literal["tokens", "mask"] | None, Field(exclude_if=lambda part: part is None)] = None

    @property
    def width(self) -> int:
        """Values a row; -1 where each row of the wire may have another number, which is so of text."""
        return len(self.features) if self.part is None else -1


def with_parts(inputs: tuple[InputTensor, ...], features: Mapping[str, Feature]) -> tuple[InputTensor, ...]:
    """`inputs` in which token ids say that they are.

    Raises:
        ValueError: a feature is not used, or not once, or by a tensor that cannot hold it.
    """
    used = sorted(name for tensor in inputs if tensor.part != "mask" for name in tensor.features)
    if used != sorted(features):
        twice = {name for name in used if used.count(name) > 1}
        raise ValueError(f"inputs must use each feature once: {sorted(twice | (set(used) ^ set(features)))}")
    found = tuple(_with_part(tensor, features) for tensor in inputs)
    masks = [tensor.features[0] for tensor in found if tensor.part == "mask"]
    if len(set(masks)) != len(masks):
        raise ValueError(f"inputs have two masks of one feature: {sorted(masks)}")
    return found


def _with_part(tensor: InputTensor, features: Mapping[str, Feature]) -> InputTensor:
    if unknown := set(tensor.features) - set(features):
        raise ValueError(f"input {tensor.name} names unknown features: {sorted(unknown)}")
    kinds = {name: features[name].type for name in tensor.features}
    if "text" in kinds.values():
        if len(tensor.features) > 1 or tensor.dtype != "int64":
            raise ValueError(f"input {tensor.name}: text gives an int64 tensor of its own, and nothing beside it")
        return tensor if tensor.part is not None else tensor.model_copy(update={"part": "tokens"})
    if tensor.part is not None:
        raise ValueError(f"input {tensor.name} is the {tensor.part} of no text feature: {list(kinds)}")
    wanted = {"number"} if tensor.dtype == "float32" else {"bucket", "category"}
    if wrong := [name for name, kind in kinds.items() if kind not in wanted]:
        raise ValueError(f"input {tensor.name} is {tensor.dtype}, which {wrong} cannot give")
    return tensor
