"""What the owner of a model says about it: everything of a manifest that is not computed from the model."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from schemas.manifest import (
    REQUIRED_FILES,
    Feature,
    Freshness,
    GoldenRow,
    InputTensor,
    Manifest,
    OutputSpecification,
    Tolerance,
)

_NO_DIGEST = "0" * 64


@dataclass(frozen=True)
class Specification:
    """Names, features, inputs and outputs of a model version. `created_at` is ISO 8601, UTC."""

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

    def draft(self) -> Manifest:
        """A manifest without files or golden rows: enough for `schemas.features`, so that training uses it too."""
        return self.manifest(dict.fromkeys(REQUIRED_FILES, _NO_DIGEST), ())
