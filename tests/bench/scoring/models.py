"""The two models: the demo's own network on made-up flights, and a perceptron of ten million weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from batch_scoring.bundle.build import build_bundle
from batch_scoring.bundle.specification import Specification
from infra.demo.model import DelayNet, features_of, specification_of
from schemas.bundle import Bundle
from schemas.manifest import (
    BucketFeature,
    Calibration,
    CategoryFeature,
    Freshness,
    InputTensor,
    NumberFeature,
    Output,
    OutputSpecification,
)
from tests.bench.scoring.night import Columns

DEMO, MLP = "demo", "mlp"
MAX_BATCH_ROWS = 1024
_CREATED_AT = "2026-11-29T00:00:00Z"
_LICENCE = "CC0-1.0: made for a benchmark, of no value.\n"
_SAMPLE_ROWS = 4096
_MLP_WIDTH, _MLP_HIDDEN = 64, 2200
_CATEGORY_VALUES = {"carrier": 16, "origin": 3, "dest": 100, "engine": 6, "manufacturer": 20}
_BUCKET_VALUES = {"local_hour": 24, "weekday": 7}
_NUMBER_NAMES = tuple(f"x{place}" for place in range(_MLP_WIDTH))
_NULL_SHARE = 0.05


@dataclass(frozen=True)
class Model:
    name: str
    bundle: Bundle
    columns: Columns


class Perceptron(torch.nn.Module):
    """(n, 64) to (n, 1) by way of three layers of 2,200: 9.8 million weights."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        sizes = (_MLP_WIDTH, _MLP_HIDDEN, _MLP_HIDDEN, _MLP_HIDDEN)
        layers = [
            layer for narrow, wide in pairwise(sizes) for layer in (torch.nn.Linear(narrow, wide), torch.nn.ReLU())
        ]
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(_MLP_HIDDEN, 1))

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        return self.layers(numbers)


def mlp_columns(numbers: np.ndarray) -> Mapping[str, object]:
    values = np.random.default_rng(int(numbers[0])).normal(size=(_MLP_WIDTH, len(numbers))).astype(np.float32)
    return dict(zip(_NUMBER_NAMES, values, strict=True))


def mlp(folder: Path) -> Model:
    sample = mlp_columns(np.arange(_SAMPLE_ROWS))
    specification = Specification(
        name=MLP,
        version="1",
        created_at=_CREATED_AT,
        features=tuple(NumberFeature(name=name) for name in _NUMBER_NAMES),
        inputs=(InputTensor(name="numbers", dtype="float32", features=_NUMBER_NAMES),),
        output=OutputSpecification(outputs=(Output(name="y", calibration=Calibration(kind="sigmoid")),)),
        max_batch_rows=MAX_BATCH_ROWS,
        freshness=Freshness(),
    )
    columns = {name: np.asarray(column).tolist() for name, column in sample.items()}
    bundle = build_bundle(folder / MLP, Perceptron(), specification, columns, _LICENCE)
    return Model(MLP, bundle, mlp_columns)


class _Sample(dict[str, object]):
    """Columns by the names that the demo asks for."""

    def __missing__(self, name: str) -> object:
        self[name] = column = _demo_column(name, np.random.default_rng(len(self)), _SAMPLE_ROWS)
        return column


def _demo_column(name: str, draw: np.random.Generator, count: int) -> object:
    """Text, whole numbers, or numbers of which one in twenty is null."""
    if name in _CATEGORY_VALUES:
        words = np.array([f"{name}-{place}" for place in range(_CATEGORY_VALUES[name])], dtype=object)
        return words[draw.integers(0, len(words), size=count)].tolist()
    if name in _BUCKET_VALUES:
        return draw.integers(0, _BUCKET_VALUES[name], size=count).astype(np.float32)
    values = draw.gamma(2.0, 50.0, size=count).astype(np.float32)
    values[draw.random(count) < _NULL_SHARE] = np.nan
    return values


def demo(folder: Path) -> Model:
    sample = _Sample()
    features = features_of(sample)  # type: ignore[arg-type]
    calibration = Calibration(kind="sigmoid", scale=0.9)
    specification = specification_of("1", features, _CREATED_AT, calibration, (0.25, 5.0), {})
    by_name = {feature.name: feature for feature in features}
    numbers, places = (len(item.features) for item in specification.inputs)
    sizes = tuple(_size(by_name[name]) for name in specification.inputs[1].features)
    assert len(sizes) == places
    torch.manual_seed(0)
    network = DelayNet(numbers, sizes)
    # Trained weights are not zero, and so the deep part must show in the answers here too.
    torch.nn.init.normal_(network.leave.weight, std=0.05)
    plain = {feature.name: _plain(sample[feature.name]) for feature in features}
    bundle = build_bundle(folder / DEMO, network.eval(), specification, plain, _LICENCE)

    def columns(rows: np.ndarray) -> Mapping[str, object]:
        draw = np.random.default_rng(int(rows[0]))
        return {feature.name: _demo_column(feature.name, draw, len(rows)) for feature in features}

    return Model(DEMO, bundle, columns)


def _size(feature: object) -> int:
    if isinstance(feature, CategoryFeature):
        return len(feature.vocabulary) + 1
    assert isinstance(feature, BucketFeature)
    return len(feature.edges) + 1


def _plain(column: object) -> list[object]:
    if isinstance(column, np.ndarray):
        return [None if np.isnan(value) else float(value) for value in column]
    assert isinstance(column, list)
    return column
