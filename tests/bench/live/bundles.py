"""The benchmark's two models: one whose answers are known beforehand, and one that keeps a core busy."""

from itertools import pairwise
from pathlib import Path

import torch

from batch_scoring.bundle.build import build_bundle
from batch_scoring.bundle.specification import Specification
from schemas.bundle import Bundle
from schemas.manifest import Freshness, InputTensor, NumberFeature, Output, OutputSpecification
from tests.bench.known import DIGIT, FEATURES, MAX_BATCH_ROWS, OUTPUTS, features_of
from tests.bench.live.rows import HEAVY_WIDTH, heavy_rows

KNOWN, HEAVY = "known", "heavy"
VERSION = "1"
_HIDDEN = 1792
_CREATED_AT = "2026-11-29T00:00:00Z"
_LICENCE = "CC0-1.0: made for a benchmark, of no value.\n"


class Known(torch.nn.Module):
    """(n, 3) to (n, 2), as `tests.bench.known.outputs_of`."""

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        low, high, weight = numbers.unbind(1)
        return torch.stack([low + DIGIT * high, weight * weight - low], dim=1)


class Heavy(torch.nn.Module):
    """(n, 64) to (n, 1) through 6.5 million weights: some 10 to 20 ms for 64 rows on one core."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        sizes = (HEAVY_WIDTH, _HIDDEN, _HIDDEN, _HIDDEN)
        layers = [
            layer for narrow, wide in pairwise(sizes) for layer in (torch.nn.Linear(narrow, wide), torch.nn.ReLU())
        ]
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(_HIDDEN, 1))

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        return self.layers(numbers)


def known_bundle(folder: Path) -> Bundle:
    rows = [features_of(number) for number in range(0, 100_000, 997)]
    columns = {name: [row[name] for row in rows] for name in FEATURES}
    return _build(folder / KNOWN, Known(), KNOWN, OUTPUTS, columns)


def heavy_bundle(folder: Path) -> Bundle:
    rows = heavy_rows()
    columns = {f"x{place}": rows[:, place].tolist() for place in range(HEAVY_WIDTH)}
    return _build(folder / HEAVY, Heavy(), HEAVY, ("y",), columns)


def _build(
    folder: Path, module: torch.nn.Module, name: str, outputs: tuple[str, ...], columns: dict[str, list[float]]
) -> Bundle:
    specification = Specification(
        name=name,
        version=VERSION,
        created_at=_CREATED_AT,
        features=tuple(NumberFeature(name=feature) for feature in columns),
        inputs=(InputTensor(name="numbers", dtype="float32", features=tuple(columns)),),
        output=OutputSpecification(outputs=tuple(Output(name=output) for output in outputs)),
        max_batch_rows=MAX_BATCH_ROWS,
        freshness=Freshness(),  # no degraded answers: what the tier cannot answer is an error
    )
    return build_bundle(folder, module, specification, columns, _LICENCE)
