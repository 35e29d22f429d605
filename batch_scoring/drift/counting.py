"""Counts of sampled rows in the bins of the baseline, by the same values that the baseline was counted from."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa

from batch_scoring.bundle.baseline import Float32Array, Values, input_values, output_values
from batch_scoring.drift.histograms import ABSENT, WITHHELD, Baseline, Tally, tally
from schemas.bundle import fetch_bundle, load_transform
from schemas.drift import INPUT, OUTPUT
from schemas.features import FeatureTransform
from schemas.manifest import Manifest, TextFeature
from schemas.names import WITHHELD as WITHHELD_KEY

COUNTED_SCHEMA = (
    "period string, population string, side string, name string, what string, bin string, count bigint"
)
_COUNTED = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("period", "population", "side", "name", "what", "bin")),
        pa.field("count", pa.int64()),
    ]
)
# The tally of the rows themselves, beside those of the features and outputs.
ROWS = ("", "rows")
RECORDS = ("", "records")

Key = tuple[str, str]
Tallies = dict[Key, Tally]


@dataclass(frozen=True, slots=True)
class CountTask:
    """What a worker needs to know. The bundle is named, not its copy: it is fetched where a feature is text."""

    bundle_url: str
    digest: str
    cache_dir: str
    allowed_urls: tuple[str, ...]
    manifest: Manifest
    baselines: tuple[Baseline, ...]

    def transform(self) -> FeatureTransform | None:
        """None where no feature is text, since nothing else is counted transformed."""
        if not self.manifest.text_features:
            return None
        bundle = fetch_bundle(self.bundle_url, self.digest, Path(self.cache_dir), self.allowed_urls)
        return load_transform(bundle.folder, bundle.manifest)


def count_rows(batches: Iterable[pa.RecordBatch], task: CountTask) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: rows of (period, population, inputs, outputs) to counts, to be added up."""
    transform = task.transform()
    for batch in batches:
        groups: dict[Key, list[int]] = {}
        for place, key in enumerate(
            zip(batch.column("period").to_pylist(), batch.column("population").to_pylist(), strict=True)
        ):
            groups.setdefault(key, []).append(place)
        for key, places in groups.items():
            rows = batch.take(pa.array(places))
            found = count(rows.column("inputs").to_pylist(), rows.column("outputs").to_pylist(), task, transform)
            yield _counted(key, found)


def count(
    inputs: Sequence[str | None],
    outputs: Sequence[Sequence[float | None] | None],
    task: CountTask,
    transform: FeatureTransform | None,
) -> Tallies:
    """The tallies of n rows, by (side, name): inputs are JSON, outputs the stored numbers, each may be null."""
    records = [record for text in inputs if text is not None and (record := _record(text)) is not None]
    baselines = {baseline.key: baseline for baseline in task.baselines}
    found: Tallies = {ROWS: Counter({("", ""): len(inputs)}), RECORDS: Counter({("", ""): len(records)})}
    found |= _inputs(records, task.manifest, baselines, transform)
    found |= _outputs(outputs, task.manifest, baselines)
    return found


def _record(text: str) -> Mapping[str, object] | None:
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None


def _inputs(
    records: Sequence[Mapping[str, object]],
    manifest: Manifest,
    baselines: Mapping[Key, Baseline],
    transform: FeatureTransform | None,
) -> Tallies:
    found: Tallies = {}
    columns = {
        name: [None if _is_withheld(value := record.get(name)) else value for record in records]
        for name in manifest.feature_names
    }
    done = transform.columns(columns, len(records)) if transform else None
    for feature in manifest.features:
        key = (INPUT, feature.name)
        if key not in baselines:
            continue
        absent = sum(feature.name not in record for record in records)
        withheld = sum(_is_withheld(record.get(feature.name)) for record in records)
        _, _, values = input_values(feature, columns[feature.name], done if _is_text(feature) else None)
        # Absent and withheld ones were counted as null, each once.
        found[key] = tally(baselines[key], values)
        found[key]["null", ""] -= absent + withheld
        found[key][ABSENT, ""], found[key][WITHHELD, ""] = absent, withheld
    return found


def _is_text(feature: object) -> bool:
    return isinstance(feature, TextFeature)


def _is_withheld(value: object) -> bool:
    return isinstance(value, dict) and WITHHELD_KEY in value


def _outputs(
    outputs: Sequence[Sequence[float | None] | None], manifest: Manifest, baselines: Mapping[Key, Baseline]
) -> Tallies:
    """Stored outputs are finite, so that a null is one that was withheld. Rows of another width are left out."""
    found: Tallies = {}
    rows = [row for row in outputs if row is not None and len(row) == manifest.output.stored_width]
    stored: Float32Array = np.array(rows, dtype=np.float32).reshape(len(rows), manifest.output.stored_width)
    for span in manifest.output.spans:
        values: Values
        for values in output_values(span, stored[:, span.stored]):
            key = (OUTPUT, values[0])
            if key in baselines:
                found[key] = tally(baselines[key], values[2])
                found[key][WITHHELD, ""] = found[key].pop(("null", ""), 0)
    return found


def _counted(group: Key, found: Tallies) -> pa.RecordBatch:
    rows = [
        (*group, *key, what, place, number)
        for key, tallied in found.items()
        for (what, place), number in tallied.items()
        if number
    ]
    columns = zip(*rows, strict=True) if rows else [[] for _ in _COUNTED]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _COUNTED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_COUNTED)
