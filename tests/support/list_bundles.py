"""Small bundles whose answers are lists: `vector_bundle` and `topics_bundle`, in a second or two.

Weights are whole numbers and so are the features, so that sums are exact: a row has the same outputs in any batch,
and many scores tie.
"""

from pathlib import Path

import torch

from batch_scoring.bundle.build import build_bundle
from batch_scoring.bundle.specification import Specification
from schemas.bundle import Bundle
from schemas.manifest import (
    Calibration,
    Freshness,
    InputTensor,
    NumberFeature,
    Output,
    OutputSpecification,
    ThresholdLabel,
    TopKOutput,
    VectorOutput,
)
from tests.support.bundles import CREATED_AT, LICENCE

TOPICS = tuple(f"topic-{place:02}" for place in range(50))
COLUMNS = {"x": [float(i % 11 - 5) for i in range(60)], "y": [float(i % 7) for i in range(60)]}


class Whole(torch.nn.Module):
    """(n, 2) whole numbers to (n, columns) whole numbers."""

    weight: torch.Tensor

    def __init__(self, columns: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.register_buffer("weight", torch.randint(-3, 4, (2, columns), generator=generator).to(torch.float32))

    def forward(self, xy: torch.Tensor) -> torch.Tensor:
        return xy @ self.weight


def vector_bundle(folder: Path, name: str = "embedder") -> Bundle:
    """Outputs `late`, a probability with a label, and `embedding`, 64 numbers: W = 65, in hashtables."""
    output = OutputSpecification(
        outputs=(
            Output(name="late", calibration=Calibration(kind="sigmoid", scale=0.25)),
            VectorOutput(name="embedding", size=64, calibration=Calibration(scale=0.125), decimals=3),
        ),
        label=ThresholdLabel(output="late", threshold=0.5, at_or_above="late", below="on time"),
    )
    return _bundle(folder, name, output)


def topics_bundle(folder: Path, name: str = "topics") -> Bundle:
    """Outputs `topics`, the 5 best of 50 labels, and `late`, a number: W = 11, in listpacks. Has a default."""
    output = OutputSpecification(
        outputs=(
            TopKOutput(name="topics", k=5, labels=TOPICS, calibration=Calibration(scale=0.1)),
            Output(name="late"),
        ),
        default=(7.0, 0.5, 3.0, 0.25, 0.0, 0.0, 1.0, 0.0, 2.0, 0.0, 0.125),
    )
    return _bundle(folder, name, output, Freshness(when_unavailable=("default",)))


def _bundle(folder: Path, name: str, output: OutputSpecification, freshness: Freshness | None = None) -> Bundle:
    specification = Specification(
        name=name,
        version="1",
        created_at=CREATED_AT,
        features=(NumberFeature(name="x"), NumberFeature(name="y", missing=0.0)),
        inputs=(InputTensor(name="xy", dtype="float32", features=("x", "y")),),
        output=output,
        max_batch_rows=256,
        freshness=freshness or Freshness(),
    )
    return build_bundle(folder, Whole(output.model_width, seed=3), specification, COLUMNS, LICENCE)
