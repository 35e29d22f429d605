"""The manifest of a model bundle: what a version is, what it takes, what it gives, and how it is checked.

Owns the document only; its features and inputs are `feature_kinds.py`'s. What turns records into tensors is
`features.py`, raw outputs into answers `outputs.py`; loading and verifying the archive belongs to whoever runs the
model.
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    model_validator,
)

from schemas.codec import CODEC_VERSION
from schemas.feature_kinds import BucketFeature as BucketFeature
from schemas.feature_kinds import CategoryFeature as CategoryFeature
from schemas.feature_kinds import Document, with_parts
from schemas.feature_kinds import Feature as Feature
from schemas.feature_kinds import InputTensor as InputTensor
from schemas.feature_kinds import NumberFeature as NumberFeature
from schemas.feature_kinds import TextFeature as TextFeature
from schemas.names import check_name

MANIFEST_FILE = "manifest.json"
MODEL_FILE = "model.pt2"
BASELINE_FILE = "baseline.parquet"
LICENCE_FILE = "LICENSE"
REQUIRED_FILES = (MODEL_FILE, BASELINE_FILE, LICENCE_FILE)
# Required too where a feature is text.
TOKENIZER_FILE = "tokenizer.json"

ModelName = Annotated[str, AfterValidator(lambda text: check_name(text, "model"))]
VersionName = Annotated[str, AfterValidator(lambda text: check_name(text, "version"))]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
RecordValue = bool | int | float | str | None


class Calibration(Document):
    """Raw model output to stored output: sigmoid or nothing, of `scale * x + shift`, then clipped."""

    kind: Literal["linear", "sigmoid"] = "linear"
    scale: FiniteFloat = 1.0
    shift: FiniteFloat = 0.0
    minimum: FiniteFloat | None = None
    maximum: FiniteFloat | None = None


class Output(Document):
    """One column of the model's output; `decimals` is how it is written in an answer."""

    name: str
    calibration: Calibration = Calibration()
    decimals: NonNegativeInt = 6


class ThresholdLabel(Document):
    """Two labels and a threshold over one probability; confidence is the probability of the label given."""

    kind: Literal["threshold"] = "threshold"
    output: str
    threshold: FiniteFloat
    at_or_above: str
    below: str


class ArgmaxLabel(Document):
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


class Rule(Document):
    """A business rule: where the output compares so, the answer's label is this one. The last that holds wins."""

    output: str
    compare: Literal[">=", "<", ">", "<="]
    value: FiniteFloat
    label: str


class OutputSpecification(Document):
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


class Freshness(Document):
    """How old an answer may be, and what to say when there is no fresh one: tried in order, then an error."""

    max_age_s: PositiveInt | None = None
    live_ttl_s: PositiveInt = 3600
    max_stale_s: NonNegativeInt = 0
    when_unavailable: tuple[Literal["stale", "default"], ...] = ()


class GoldenRow(Document):
    """A raw record and the stored outputs, (K,), it must give."""

    record: dict[str, RecordValue]
    outputs: tuple[FiniteFloat, ...]


class Tolerance(Document):
    absolute: Annotated[float, Field(ge=0)] = 1e-4
    relative: Annotated[float, Field(ge=0)] = 1e-4


class Manifest(Document):
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
    metrics: dict[str, FiniteFloat] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _codec_is_known(self) -> Self:
        if self.codec > CODEC_VERSION:
            raise ValueError(f"codec {self.codec} is newer than this program's {CODEC_VERSION}: upgrade it")
        return self

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        features = {feature.name: feature for feature in self.features}
        if len(features) != len(self.features):
            raise ValueError("two features share a name")
        # Frozen for those who read it; here it is still being made.
        self.__dict__["inputs"] = with_parts(self.inputs, features)
        required = (*REQUIRED_FILES, *((TOKENIZER_FILE,) if self.text_features else ()))
        if missing := [name for name in required if name not in self.files]:
            raise ValueError(f"files lack {missing}")
        if any(len(row.outputs) != len(self.output.outputs) for row in self.golden):
            raise ValueError("a golden row has another number of outputs than the specification")
        return self

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features)

    @property
    def text_features(self) -> Mapping[str, TextFeature]:
        """By name."""
        return {feature.name: feature for feature in self.features if isinstance(feature, TextFeature)}

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(output.name for output in self.output.outputs)


def bundle_digest(manifest_json: bytes) -> str:
    """The digest by which routes and settings name a bundle."""
    return hashlib.sha256(manifest_json).hexdigest()
