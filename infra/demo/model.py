"""The demo's model: what it is given, what it answers, and the network itself.

The network is a logistic regression and what that misses: a linear part, begun at the regression's optimum, plus
embeddings with residual layers. About a million parameters.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional

from batch_scoring.bundle.specification import Specification
from schemas.features import Column
from schemas.manifest import (
    BucketFeature,
    Calibration,
    CategoryFeature,
    Feature,
    Freshness,
    InputTensor,
    NumberFeature,
    Output,
    OutputSpecification,
    Rule,
    ThresholdLabel,
)

# The shared heads: late by more than each of these minutes, the one asked for among them, then the delay itself.
LATE_MINUTES = (-15.0, 0.0, 15.0, 30.0, 60.0, 120.0)
LATE_HEAD = LATE_MINUTES.index(15.0)
HEADS = len(LATE_MINUTES) + 1
# One unit of the delay head, in minutes.
DELAY_UNIT = 40.0

_CATEGORIES = ("carrier", "origin", "dest", "engine", "manufacturer")
_REQUIRED = frozenset({"carrier", "origin", "dest"})
_BUCKETS = {"local_hour": (24, 12.0), "weekday": (7, 2.0)}
_LOGARITHMIC = frozenset({"rain", "haze", "rain_6h", "haze_6h", "rain_12h", "haze_12h"})
# What null means, where it is not "as usual": no gust, no rain, a plane with all day to recover.
_MISSING = {"wind_gust": 0.0, "wind_gust_6h": 0.0, "plane_legs": 0.0, "plane_slack": 900.0}
_MISSING |= dict.fromkeys(_LOGARITHMIC, 0.0)
_NUMBERS = (
    *("distance", "planned_minutes", "seats", "plane_year", "hour_flights", "plane_legs", "plane_slack"),
    *("entity_delay", "entity_late", "entity_flights"),
    *("carrier_delay", "carrier_late", "carrier_late_yesterday"),
    *("route_delay", "route_late", "route_flights", "hour_delay", "hour_late", "origin_late_yesterday"),
    *("temp", "dewp", "humid", "pressure", "wind_east", "wind_north", "wind_speed", "wind_gust", "rain", "haze"),
    *("wind_speed_6h", "wind_gust_6h", "rain_6h", "haze_6h", "rain_12h", "haze_12h"),
)
_RAREST = 20
# Values further out than this many deviations tell no more.
_CLIP = 5.0


def features_of(columns: Mapping[str, Column]) -> tuple[Feature, ...]:
    """The features with scales, defaults and vocabularies taken from training columns."""
    numbers = [_number(name, np.asarray(columns[name], dtype=np.float64)) for name in _NUMBERS]
    categories = [_category(name, columns[name]) for name in _CATEGORIES]
    buckets = [
        BucketFeature(name=name, edges=tuple(float(edge) for edge in range(1, count)), missing=usual)
        for name, (count, usual) in _BUCKETS.items()
    ]
    return (*numbers, *categories, *buckets)


def specification_of(
    version: str,
    features: tuple[Feature, ...],
    created_at: str,
    late: Calibration,
    usual: tuple[float, float],
    metrics: Mapping[str, float],
) -> Specification:
    """`late` calibrates the first output; `usual` is the degraded answer: late probability, minutes."""
    return Specification(
        name="delay",
        version=version,
        created_at=created_at,
        features=features,
        inputs=(
            InputTensor(name="numbers", dtype="float32", features=_NUMBERS),
            InputTensor(name="categories", dtype="int64", features=(*_CATEGORIES, *_BUCKETS)),
        ),
        output=OutputSpecification(
            outputs=(
                Output(name="late", calibration=late, decimals=4),
                Output(name="delay_minutes", calibration=Calibration(scale=DELAY_UNIT), decimals=1),
            ),
            # One flight in four is late: half is a high bar, and two fifths already worth a warning.
            label=ThresholdLabel(output="late", threshold=0.4, at_or_above="late", below="on time"),
            rules=(Rule(output="delay_minutes", compare=">=", value=45.0, label="very late"),),
            default=usual,
        ),
        max_batch_rows=1024,
        # No degraded answer: a client that is told when to ask again gets the right one.
        freshness=Freshness(max_age_s=36 * 3600, live_ttl_s=6 * 3600, max_stale_s=72 * 3600),
        metrics=metrics,
    )


def _number(name: str, values: npt.NDArray[np.float64]) -> NumberFeature:
    known = values[np.isfinite(values)]
    missing = _MISSING.get(name, float(np.median(known)))
    filled = np.where(np.isfinite(values), values, missing)
    scaled = np.log1p(filled) if name in _LOGARITHMIC else filled
    deviation = float(scaled.std()) or 1.0
    return NumberFeature(
        name=name,
        log1p=name in _LOGARITHMIC,
        minimum=0.0 if name in _LOGARITHMIC else None,
        scale=1.0 / deviation,
        shift=-float(scaled.mean()) / deviation,
        missing=missing,
    )


def _category(name: str, column: Column) -> CategoryFeature:
    values, counts = np.unique([value for value in column if isinstance(value, str)], return_counts=True)
    vocabulary = tuple(str(value) for value in values[counts >= _RAREST])
    return CategoryFeature(name=name, vocabulary=vocabulary, missing=None if name in _REQUIRED else "unknown")


class Block(nn.Module):
    """A residual layer: (n, width) to the same, by way of `hidden`."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.down(self.dropout(functional.relu(self.up(self.norm(x)))))
        return out


class DelayNet(nn.Module):
    """(n, numbers) float32 and (n, categories) int64 to (n, 2): late logit, delay in units of `DELAY_UNIT`."""

    def __init__(self, numbers: int, sizes: tuple[int, ...], width: int = 256, hidden: int = 640) -> None:
        super().__init__()
        embedding = 8
        self.linear = nn.Linear(numbers, HEADS)
        self.biases = nn.ModuleList([nn.Embedding(size, HEADS) for size in sizes])
        self.embeddings = nn.ModuleList([nn.Embedding(size, embedding) for size in sizes])
        self.enter = nn.Linear(numbers + embedding * len(sizes), width)
        self.blocks = nn.ModuleList([Block(width, hidden, 0.3) for _ in range(3)])
        self.norm = nn.LayerNorm(width)
        self.leave = nn.Linear(width, HEADS)
        self.noise = 0.2
        self._begin()

    def _begin(self) -> None:
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)
        for table in self.biases.parameters():
            nn.init.zeros_(table)
        for table in self.embeddings.parameters():
            nn.init.normal_(table, std=0.3)

    def begin_at(self, weights: npt.NDArray[np.float64], bias: float) -> None:
        """Sets the linear part of the late head to a regression over numbers, then all but each first category."""
        numbers = self.linear.in_features
        with torch.no_grad():
            self.linear.weight[LATE_HEAD] = torch.from_numpy(weights[:numbers])
            self.linear.bias[LATE_HEAD] = bias
            start = numbers
            for table in self.biases.parameters():
                table[1:, LATE_HEAD] = torch.from_numpy(weights[start : start + len(table) - 1])
                start += len(table) - 1

    def parts(self, numbers: torch.Tensor, categories: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """All heads, (n, HEADS), of the linear and of the deep part; the model is their sum."""
        x = numbers.clamp(-_CLIP, _CLIP)
        linear = self.linear(x)
        for place, table in enumerate(self.biases):
            linear = linear + table(categories[:, place])
        if self.training:
            x = x + self.noise * torch.randn_like(x)
        deep = torch.cat([x, *(table(categories[:, i]) for i, table in enumerate(self.embeddings))], dim=1)
        deep = self.enter(deep)
        for block in self.blocks:
            deep = block(deep)
        return linear, self.leave(functional.relu(self.norm(deep)))

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        linear, deep = self.parts(numbers, categories)
        heads = linear + deep
        return torch.stack([heads[:, LATE_HEAD], heads[:, HEADS - 1]], dim=1)
