"""The training distributions of a bundle's inputs and outputs, which drift is measured against.

One row of `baseline.parquet` a column (`schemas.arrow.BASELINE`). Numbers have counts between edges that are
quantiles of the data: equal shares where values are many, fewer bins where they are tied. Categories have counts
by value; text has its numbers of tokens, counted as numbers are.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.arrow import BASELINE
from schemas.features import Column, Transformed, canonical_number
from schemas.manifest import CategoryFeature, Feature, Manifest, TextFeature, TopKOutput
from schemas.output_kinds import Span

_BINS = 20
_MAX_VALUES = 1000

Float32Array = npt.NDArray[np.float32]
# Name, type (`number`, `category`, `text`) and n values: text or None of a category, else numbers, NaN for none.
Values = tuple[str, str, Column]


def write_baseline(
    path: Path, manifest: Manifest, columns: Mapping[str, Column], done: Transformed, outputs: Float32Array
) -> None:
    """Writes the distributions of n rows.

    Args:
        columns: raw values by feature.
        done: the same, transformed.
        outputs: (n, W) stored outputs.
    """
    rows = [_row("input", *input_values(feature, columns[feature.name], done)) for feature in manifest.features]
    rows += [
        _row("output", *values)
        for span in manifest.output.spans
        for values in output_values(span, outputs[:, span.stored])
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=BASELINE), path)


def input_values(feature: Feature, column: Column, done: Transformed | None) -> Values:
    """What of a feature is counted, of n raw values; `done`, the same transformed, is needed for text only."""
    if isinstance(feature, CategoryFeature):
        return feature.name, "category", column
    if isinstance(feature, TextFeature):
        assert done is not None, "text is counted by its tokens"
        counts = np.array(
            [
                np.nan if value is None else count
                for value, count in zip(column, done.texts[feature.name].counts, strict=True)
            ]
        )
        return feature.name, "text", counts
    return feature.name, "number", _floats(column)


def output_values(span: Span, stored: Float32Array) -> Iterator[Values]:
    """A number for each that is stored; of a top-k the scores by rank, and how often each label is the best."""
    output = span.output
    if not isinstance(output, TopKOutput):
        yield from ((name, "number", stored[:, place]) for place, name in enumerate(output.stored_names))
        return
    label, *_ = output.stored_names
    yield label, "category", [output.label(int(place)) if np.isfinite(place) else None for place in stored[:, 0]]
    for rank, name in enumerate(output.stored_names[1::2]):
        yield name, "number", stored[:, 2 * rank + 1]


def _row(side: str, name: str, kind: str, values: Column) -> dict[str, object]:
    if kind == "category":
        return _category(side, name, values)
    return {**_number(side, name, np.asarray(values)), "type": kind}


def _number(side: str, name: str, values: npt.NDArray[np.floating]) -> dict[str, object]:
    known = values[np.isfinite(values)].astype(np.float64)
    row: dict[str, object] = {"side": side, "name": name, "type": "number", "rows": len(values)}
    row["nulls"] = len(values) - len(known)
    if len(known):
        edges = np.unique(np.quantile(known, np.linspace(0, 1, _BINS + 1), method="lower"))
        # A bin is edges[i] <= x < edges[i + 1], the last one closed; a constant has one edge, one bin.
        places = np.clip(np.searchsorted(edges, known, side="right") - 1, 0, max(len(edges) - 2, 0))
        row["edges"] = edges.tolist()
        row["counts"] = np.bincount(places, minlength=max(len(edges) - 1, 1)).tolist()
        row["mean"], row["deviation"] = float(known.mean()), float(known.std())
    return row


def _category(side: str, name: str, column: Column) -> dict[str, object]:
    counts = Counter(value for value in column if isinstance(value, str))
    common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MAX_VALUES]
    return {
        "side": side,
        "name": name,
        "type": "category",
        "rows": len(column),
        "nulls": len(column) - counts.total(),
        "values": [value for value, _ in common],
        "counts": [count for _, count in common],
    }


def _floats(column: Column) -> npt.NDArray[np.float64]:
    if isinstance(column, np.ndarray) and column.dtype.kind == "f":
        return column.astype(np.float64)
    numbers = [canonical_number(value) for value in column]
    return np.array([np.nan if number is None else number for number in numbers], dtype=np.float64)
