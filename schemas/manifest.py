"""The manifest of a model bundle: what a version is, what it takes, what it gives, and how it is checked.

Owns the document only. What turns records into tensors is `features.py`, raw outputs into answers
`outputs.py`; loading and verifying the archive belongs to whoever runs the model.
"""

import hashlib
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    model_validator,
)

from schemas.codec import CODEC_VERSION
from schemas.names import check_name

MANIFEST_FILE = "manifest.json"
MODEL_FILE = "model.pt2"
BASELINE_FILE = "baseline.parquet"
LICENCE_FILE = "LICENSE"
REQUIRED_FILES = (MODEL_FILE, BASELINE_FILE, LICENCE_FILE)

ModelName = Annotated[str, AfterValidator(lambda text: check_name(text, "model"))]
VersionName = Annotated[str, AfterValidator(lambda text: check_name(text, "version"))]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
RecordValue = bool | int | float | str | None


class _Document(BaseModel):
    """Frozen, and strict about names: a misspelt field is an error, not a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class NumberFeature(_Document):
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


class BucketFeature(_Document):
    """A number whose place among ascending `edges` is the category: edges[i-1] <= x < edges[i] gives i."""

    type: Literal["bucket"] = "bucket"
    name: str
    edges: tuple[FiniteFloat, ...]
    missing: FiniteFloat | None = None

    @model_validator(mode="after")
    def _edges_ascend(self) -> Self:
        if not self.edges or any(a >= b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError("edges must be at least one number, ascending")
        return self


class CategoryFeature(_Document):
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


Feature = Annotated[NumberFeature | BucketFeature | CategoryFeature, Field(discriminator="type")]


class InputTensor(_Document):
    """One input of the model's forward, (rows, *shape). Its columns are `features`, in this order."""

    name: str
    dtype: Literal["float32", "int64"]
    features: tuple[str, ...]

    @property
    def width(self) -> int:
        return len(self.features)


class Calibration(_Document):
    """Raw model output to stored output: sigmoid or nothing, of `scale * x + shift`, then clipped."""

    kind: Literal["linear", "sigmoid"] = "linear"
    scale: FiniteFloat = 1.0
    shift: FiniteFloat = 0.0
    minimum: FiniteFloat | None = None
    maximum: FiniteFloat | None = None


class Output(_Document):
    """One column of the model's output; `decimals` is how it is written in an answer."""

    name: str
    calibration: Calibration = Calibration()
    decimals: NonNegativeInt = 6


class ThresholdLabel(_Document):
    """Two labels and a threshold over one probability; confidence is the probability of the label given."""

    kind: Literal["threshold"] = "threshold"
    output: str
    threshold: FiniteFloat
    at_or_above: str
    below: str


class ArgmaxLabel(_Document):
    """The label of the largest of several outputs, the first of equals; confidence is that output."""

    kind: Literal["argmax"] = "argmax"
    outputs: tuple[str, ...]
    labels: tuple[str, ...]

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if len(self.outputs) != len(self.labels) or not self.outputs:
            raise ValueError("argmax needs a label for each output")
        return self


Label = Annotated[ThresholdLabel | ArgmaxLabel, Field(discriminator="kind")]


class Rule(_Document):
    """A business rule: where the output compares so, the answer's label is this one. The last that holds wins."""

    output: str
    compare: Literal[">=", "<", ">", "<="]
    value: FiniteFloat
    label: str


class OutputSpecification(_Document):
    """Everything between raw outputs and the answer. `default` is the degraded answer's stored outputs."""

    outputs: tuple[Output, ...]
    label: Label | None = None
    rules: tuple[Rule, ...] = ()
    default: tuple[FiniteFloat, ...] | None = None

    @model_validator(mode="after")
    def _names_hold(self) -> Self:
        names = [output.name for output in self.outputs]
        if not names or len(set(names)) != len(names):
            raise ValueError("outputs must have distinct names, at least one")
        named = [rule.output for rule in self.rules]
        if isinstance(self.label, ThresholdLabel):
            named.append(self.label.output)
        elif self.label is not None:
            named.extend(self.label.outputs)
        if unknown := set(named) - set(names):
            raise ValueError(f"label or rules name unknown outputs: {sorted(unknown)}")
        if self.default is not None and len(self.default) != len(names):
            raise ValueError(f"default has {len(self.default)} values for {len(names)} outputs")
        return self


class Freshness(_Document):
    """How old an answer may be, and what to say when there is no fresh one: tried in order, then an error."""

    max_age_s: PositiveInt | None = None
    live_ttl_s: PositiveInt = 3600
    max_stale_s: NonNegativeInt = 0
    when_unavailable: tuple[Literal["stale", "default"], ...] = ()


class GoldenRow(_Document):
    """A raw record and the stored outputs, (K,), it must give."""

    record: dict[str, RecordValue]
    outputs: tuple[FiniteFloat, ...]


class Tolerance(_Document):
    absolute: Annotated[float, Field(ge=0)] = 1e-4
    relative: Annotated[float, Field(ge=0)] = 1e-4


class Manifest(_Document):
    """`manifest.json`. Digest of a bundle: sha256 of this file's bytes, which hold the sha256 of every other."""

    format: Literal[1] = 1
    codec: PositiveInt = CODEC_VERSION
    name: ModelName
    version: VersionName
    files: dict[str, Sha256]
    torch_version: str
    created_at: str
    features: tuple[Feature, ...]
    inputs: tuple[InputTensor, ...]
    output: OutputSpecification
    max_batch_rows: PositiveInt
    freshness: Freshness = Freshness()
    golden: tuple[GoldenRow, ...]
    tolerance: Tolerance = Tolerance()
    metrics: dict[str, FiniteFloat] = {}

    @model_validator(mode="after")
    def _codec_is_known(self) -> Self:
        if self.codec > CODEC_VERSION:
            raise ValueError(f"codec {self.codec} is newer than this program's {CODEC_VERSION}: upgrade it")
        return self

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        kinds = {feature.name: feature.type for feature in self.features}
        if len(kinds) != len(self.features):
            raise ValueError("two features share a name")
        used = [name for tensor in self.inputs for name in tensor.features]
        if sorted(used) != sorted(kinds):
            raise ValueError(f"inputs must use each feature once: {sorted(set(used) ^ set(kinds))}")
        for tensor in self.inputs:
            wanted = {"number"} if tensor.dtype == "float32" else {"bucket", "category"}
            if wrong := [name for name in tensor.features if kinds[name] not in wanted]:
                raise ValueError(f"input {tensor.name} is {tensor.dtype}, which {wrong} cannot give")
        if missing := [name for name in REQUIRED_FILES if name not in self.files]:
            raise ValueError(f"files lack {missing}")
        if any(len(row.outputs) != len(self.output.outputs) for row in self.golden):
            raise ValueError("a golden row has another number of outputs than the specification")
        return self

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(output.name for output in self.output.outputs)


def bundle_digest(manifest_json: bytes) -> str:
    """The digest by which routes and settings name a bundle."""
    return hashlib.sha256(manifest_json).hexdigest()
