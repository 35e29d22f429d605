"""The manifest of a model bundle: what a version is, what it takes, what it gives, and how it is checked.

Owns the document only; its features and inputs are `feature_kinds.py`'s, its outputs `output_kinds.py`'s. What
turns records into tensors is `features.py`, raw outputs into answers `outputs.py`; loading and verifying the
archive belongs to whoever runs the model.
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
from schemas.output_kinds import AnyOutput as AnyOutput
from schemas.output_kinds import ArgmaxLabel as ArgmaxLabel
from schemas.output_kinds import Calibration as Calibration
from schemas.output_kinds import Output as Output
from schemas.output_kinds import OutputSpecification as OutputSpecification
from schemas.output_kinds import Rule as Rule
from schemas.output_kinds import ThresholdLabel as ThresholdLabel
from schemas.output_kinds import TopKOutput as TopKOutput
from schemas.output_kinds import VectorOutput as VectorOutput

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


class Freshness(Document):
    """How old an answer may be, and what to say when there is no fresh one.

    Attributes:
        max_age_s: an older stored value is a miss; None: a value is good until a newer one is there.
        live_ttl_s: how long a live result is kept.
        stale_while_revalidate_s: a value older than `max_age_s` by at most this is answered once more, while it is
            renewed in the background.
        max_stale_s: a value older than `max_age_s` (0 where there is none) by at most this may be answered as
            `stale`.
        when_unavailable: tried in order where live cannot answer, then an error.
    """

    max_age_s: PositiveInt | None = None
    live_ttl_s: PositiveInt = 3600
    stale_while_revalidate_s: NonNegativeInt = 0
    max_stale_s: NonNegativeInt = 0
    when_unavailable: tuple[Literal["stale", "default"], ...] = ()

    @model_validator(mode="after")
    def _bounds_have_an_effect(self) -> Self:
        if self.stale_while_revalidate_s and self.max_age_s is None:
            raise ValueError("stale_while_revalidate_s needs max_age_s: without it no value is ever stale")
        return self


class GoldenRow(Document):
    """A raw record and the stored outputs, (W,), it must give."""

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
        if any(len(row.outputs) != self.output.stored_width for row in self.golden):
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
