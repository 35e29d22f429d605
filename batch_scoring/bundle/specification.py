"""What the owner of a model says about it: everything of a manifest that is not computed from the model."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from schemas.manifest import (
    REQUIRED_FILES,
    TOKENIZER_FILE,
    Feature,
    Freshness,
    GoldenRow,
    InputTensor,
    Manifest,
    OutputSpecification,
    TextFeature,
    Tolerance,
)

_NO_DIGEST = "0" * 64


@dataclass(frozen=True)
class Specification:
    """Names, features, inputs and outputs of a model version.

    Attributes:
        created_at: ISO 8601, UTC.
        tokenizer: the JSON of a `tokenizers.Tokenizer`, where a feature is text.
    """

    name: str
    version: str
    created_at: str
    features: tuple[Feature, ...]
    inputs: tuple[InputTensor, ...]
    output: OutputSpecification
    max_batch_rows: int = 1024
    freshness: Freshness = field(default_factory=Freshness)
    tolerance: Tolerance = field(default_factory=Tolerance)
    metrics: Mapping[str, float] = field(default_factory=dict)
    tokenizer: str | bytes | None = None

    def manifest(self, files: Mapping[str, str], golden: tuple[GoldenRow, ...]) -> Manifest:
        """The manifest of these files (sha256 by name) and golden rows. Raises pydantic.ValidationError."""
        return Manifest(
            name=self.name,
            version=self.version,
            files=dict(sorted(files.items())),
            torch_version=torch.__version__,
            created_at=self.created_at,
            features=self.features,
            inputs=self.inputs,
            output=self.output,
            max_batch_rows=self.max_batch_rows,
            freshness=self.freshness,
            golden=golden,
            tolerance=self.tolerance,
            metrics=dict(self.metrics),
        )

    @property
    def tokenizer_json(self) -> bytes | None:
        return self.tokenizer.encode() if isinstance(self.tokenizer, str) else self.tokenizer

    def draft(self) -> Manifest:
        """A manifest without files or golden rows: enough for `schemas.features`, so that training uses it too."""
        has_text = any(isinstance(feature, TextFeature) for feature in self.features)
        files = (*REQUIRED_FILES, *((TOKENIZER_FILE,) if has_text else ()))
        return self.manifest(dict.fromkeys(files, _NO_DIGEST), ())
