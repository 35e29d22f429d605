"""Small bundles in a second or two, for any test: `linear_bundle`, `edge_bundle`, `log_bundle`, `text_bundle`."""

from pathlib import Path

import numpy as np
import torch

from batch_scoring.bundle.build import build_bundle
from batch_scoring.bundle.specification import Specification
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
    TextFeature,
    ThresholdLabel,
)
from tests.support.texts import word_tokenizer, words

MODEL = "tiny"
CREATED_AT = "2026-11-29T00:00:00Z"
LICENCE = "CC0-1.0: made for tests, of no value.\n"
AIRLINES = ("AA", "DL", "UA")
MAX_TOKENS = 512


class Linear(torch.nn.Module):
    """(n, 2) numbers and (n, 1) category to a logit and a number, by weights that follow from the seed."""

    weight: torch.Tensor
    by_airline: torch.Tensor

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.register_buffer("weight", torch.randn(2, 2, generator=generator))
        self.register_buffer("by_airline", torch.randn(len(AIRLINES) + 1, 2, generator=generator))

    def forward(self, numbers: torch.Tensor, airline: torch.Tensor) -> torch.Tensor:
        return numbers @ self.weight + self.by_airline[airline[:, 0]]


class Edge(torch.nn.Module):
    """(n, 1) bucket and (n, 1) number to 0.5 at and above the edge, else just under it; and the number itself."""

    def forward(self, bucket: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.where(bucket > 0, 0.5, 0.49999997), number], dim=1)


class Log(torch.nn.Module):
    """(n, 1) to its logarithm: -inf at 0, NaN below."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(x)


def linear_bundle(
    folder: Path,
    version: str = "1",
    name: str = MODEL,
    seed: int = 0,
    scale: float = 1.0,
    columns: dict[str, list[object]] | None = None,
) -> Bundle:
    """Features `distance` (required), `delay` (missing: 0), `airline` (missing: AA); outputs `late`, `minutes`.

    Args:
        seed: another seed gives another model.
        scale: of the calibration of `late`.
        columns: what it was trained on, for its baseline and golden rows.
    """
    output = OutputSpecification(
        outputs=(
            Output(name="late", calibration=Calibration(kind="sigmoid", scale=scale)),
            Output(name="minutes"),
        ),
        label=ThresholdLabel(output="late", threshold=0.5, at_or_above="late", below="on time"),
        default=(0.25, 5.0),
    )
    specification = Specification(
        name=name,
        version=version,
        created_at=CREATED_AT,
        features=(
            NumberFeature(name="distance", scale=0.001, minimum=0),
            NumberFeature(name="delay", scale=0.1, missing=0.0),
            CategoryFeature(name="airline", vocabulary=AIRLINES, missing="AA"),
        ),
        inputs=(
            InputTensor(name="numbers", dtype="float32", features=("distance", "delay")),
            InputTensor(name="airline", dtype="int64", features=("airline",)),
        ),
        output=output,
        max_batch_rows=64,
        freshness=Freshness(max_stale_s=3600, when_unavailable=("stale", "default")),
    )
    rows = np.arange(60)
    columns = columns or {
        "distance": (100.0 + 37.0 * rows).tolist(),
        "delay": [None if row % 7 == 0 else float(row - 30) for row in rows],
        "airline": [(*AIRLINES, "XX", None)[row % 5] for row in rows],
    }
    return build_bundle(folder, Linear(seed), specification, columns, LICENCE)


def edge_bundle(folder: Path, version: str = "1", name: str = "edge") -> Bundle:
    """Feature `x` twice: `x` bucketed at 0.1 decides the label at threshold 0.5; `y` is passed through."""
    specification = Specification(
        name=name,
        version=version,
        created_at=CREATED_AT,
        features=(BucketFeature(name="x", edges=(0.1,)), NumberFeature(name="y", missing=0.0)),
        inputs=(
            InputTensor(name="bucket", dtype="int64", features=("x",)),
            InputTensor(name="number", dtype="float32", features=("y",)),
        ),
        output=OutputSpecification(
            outputs=(Output(name="p"), Output(name="y")),
            label=ThresholdLabel(output="p", threshold=0.5, at_or_above="high", below="low"),
        ),
        max_batch_rows=32,
    )
    columns = {"x": [0.0, 0.1, 0.2, 1.0], "y": [0.0, -0.0, 0.5, 16777217.0]}
    return build_bundle(folder, Edge(), specification, columns, LICENCE)


def log_bundle(folder: Path, version: str = "1", name: str = "log", with_default: bool = False) -> Bundle:
    """Output `log_x` of feature `x`: not finite where x <= 0."""
    specification = Specification(
        name=name,
        version=version,
        created_at=CREATED_AT,
        features=(NumberFeature(name="x"),),
        inputs=(InputTensor(name="x", dtype="float32", features=("x",)),),
        output=OutputSpecification(outputs=(Output(name="log_x"),), default=(0.0,) if with_default else None),
        max_batch_rows=32,
        freshness=Freshness(when_unavailable=("default",) if with_default else ()),
    )
    return build_bundle(folder, Log(), specification, {"x": [0.5, 1.0, 2.0, 10.0, 0.0, -1.0]}, LICENCE)


class MeanPooled(torch.nn.Module):
    """(n, L) token ids, (n, L) mask and (n, 1) number to a logit and a number: the mean of what is no padding.

    Each token counts by its place too, so that another cut or order gives another mean.
    """

    embedding: torch.Tensor
    place: torch.Tensor
    weight: torch.Tensor

    def __init__(self, vocabulary: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.register_buffer("embedding", torch.randn(vocabulary, 16, generator=generator))
        self.register_buffer("place", torch.rand(MAX_TOKENS, 16, generator=generator))
        self.register_buffer("weight", torch.randn(16, 2, generator=generator))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        kept = mask.unsqueeze(-1).to(torch.float32)
        summed = (self.embedding[ids] * self.place[: ids.shape[1]] * kept).sum(dim=1)
        return (summed / kept.sum(dim=1).clamp(min=1.0)) @ self.weight + number


class Masking(torch.nn.Module):
    """(n, L) token ids alone; which of them are padding it tells by their id."""

    def __init__(self, vocabulary: int, seed: int, padding_id: int) -> None:
        super().__init__()
        self.pooled, self.padding_id = MeanPooled(vocabulary, seed), padding_id

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        mask = (ids != self.padding_id).to(torch.int64)
        return self.pooled(ids, mask, torch.zeros_like(ids[:, :1], dtype=torch.float32))


class Averaging(torch.nn.Module):
    """(n, L) token ids to their mean, padding included: a model that may not be served."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return ids.to(torch.float32).mean(dim=1, keepdim=True)


def text_bundle(folder: Path, version: str = "1", name: str = "text", seed: int = 0) -> Bundle:
    """Features `text` (required) and `number` (missing: 0); outputs `late`, `minutes`. With a mask."""
    tokenizer = word_tokenizer()
    specification = Specification(
        name=name,
        version=version,
        created_at=CREATED_AT,
        features=(TextFeature(name="text", max_tokens=MAX_TOKENS), NumberFeature(name="number", missing=0.0)),
        inputs=(
            InputTensor(name="ids", dtype="int64", features=("text",)),
            InputTensor(name="mask", dtype="int64", features=("text",), part="mask"),
            InputTensor(name="number", dtype="float32", features=("number",)),
        ),
        output=OutputSpecification(outputs=(Output(name="late"), Output(name="minutes"))),
        max_batch_rows=64,
        tokenizer=tokenizer.to_str(),
    )
    columns = {
        "text": [words(min(4**row // 3, 700), row) for row in range(12)],
        "number": [0.25 * row for row in range(12)],
    }
    return build_bundle(folder, MeanPooled(tokenizer.get_vocab_size(), seed), specification, columns, LICENCE)


def other_text_bundle(folder: Path, version: str = "1", name: str = "other", seed: int = 1) -> Bundle:
    """Feature `text` (missing: empty), of other lengths, another padding and no mask; outputs as `text_bundle`."""
    tokenizer = word_tokenizer(padding="<pad>", padding_first=False)
    specification = Specification(
        name=name,
        version=version,
        created_at=CREATED_AT,
        features=(TextFeature(name="text", max_tokens=100, length_buckets=(10, 30, 100), missing=""),),
        inputs=(InputTensor(name="ids", dtype="int64", features=("text",)),),
        output=OutputSpecification(outputs=(Output(name="late"), Output(name="minutes"))),
        max_batch_rows=32,
        tokenizer=tokenizer.to_str().encode(),
    )
    padding_id = tokenizer.token_to_id("<pad>")
    module = Masking(tokenizer.get_vocab_size(), seed, padding_id)
    columns = {"text": [words(3 * row * row, row) for row in range(8)]}
    return build_bundle(folder, module, specification, columns, LICENCE)
