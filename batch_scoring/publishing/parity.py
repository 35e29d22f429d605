"""Parity: whether the live tier answers what was precomputed, for the sample that was read back.

The sample's features come from the run's own files, so they are of the same moment; they are transformed and
calibrated by the code that the API uses, and computed by replicas that have this very bundle warm. Differences are
sorted in `differences`. What cannot be compared is said in `skipped`, never raised: the gate decides.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batch_scoring.files import dataset
from batch_scoring.live_tier.asking import Asking, NotAnswered
from batch_scoring.live_tier.client import LiveTierClient
from batch_scoring.live_tier.replicas import announced_replicas, wanted_by
from batch_scoring.publishing.differences import Compared, figures
from batch_scoring.runs import LOG, Run, stage
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect
from schemas.bundle import BundleError, fetch_manifest, fetch_tokenizer, make_transform
from schemas.codec import CorruptValue, unpack
from schemas.feature_table import pack_record, unpack_record
from schemas.features import FeatureTransform
from schemas.keys import bucket_of, feature_key, field_of
from schemas.manifest import Manifest
from schemas.outputs import Float32Array
from schemas.parity import NIGHTLY_KINDS
from schemas.replicas import Replica, Wanted

Sample = Sequence[tuple[bytes, bytes]]
Record = Mapping[str, object]

_SHOWN_DIGEST = 12


class Skipped(Exception):
    """The comparison cannot be made; the message says why."""


@dataclass
class _Rows:
    """What is to be compared, by entity. `table`: of those for which the feature table has another record than the
    run's files; None where it cannot be read.
    """

    stored: dict[bytes, list[float]] = field(default_factory=dict)
    records: dict[bytes, Record] = field(default_factory=dict)
    table: dict[bytes, Record | None] = field(default_factory=dict)
    not_in_table: int = 0


def parity(run: Run, settings: BatchSettings, sample: Sample) -> dict[str, object]:
    """Compares stored values with answers of the live tier.

    Args:
        sample: (entity, packed value) pairs, as they were read back.

    Returns:
        `compared` = `equal` + `numeric` + `feature_drift` + `wrong_model`, `identical` (to the last bit), largest
        differences, the `worst` entities, `replicas` (rows that each answered), `other_bundle` (replicas that
        serve the version's name from another bundle), `skipped` (why not all was compared, or None).
    """
    began = time.monotonic()
    with stage(run, "parity with the live tier") as facts:
        report = _parity(run, settings, sample)
        shown = ("compared", "equal", "numeric", "feature_drift", "wrong_model")
        facts |= {name: report[name] for name in shown}
    if report["skipped"]:
        LOG.warning("%s %s: parity was not checked: %s", run.model, run.generation, report["skipped"])
    return {"sample": len(sample), **report, "took_s": round(time.monotonic() - began, 3)}


def _parity(run: Run, settings: BatchSettings, sample: Sample) -> dict[str, object]:
    nothing: dict[str, object] = {"compared": 0, "identical": 0, **{kind.value: 0 for kind in NIGHTLY_KINDS}}
    nothing |= {"not_in_table": 0, "max_abs_diff": None, "max_relative_diff": None, "worst": []}
    nothing |= {"replicas": {}, "other_bundle": [], "skipped": None}
    if not sample:
        return nothing
    wanted = wanted_by(run)
    with connect(settings) as redis:
        replicas = announced_replicas(redis, settings)
    nothing["other_bundle"] = [one.name for one in replicas if one.has_other_bundle(wanted)]
    try:
        warm = _warm(replicas, wanted)
        manifest, transform = _bundle(run, settings)
        rows = _rows(run, settings, manifest, sample)
        return nothing | _compare(run, settings, warm, manifest, transform, rows)
    except Skipped as reason:
        return nothing | {"skipped": str(reason)}


def _warm(replicas: Sequence[Replica], wanted: Wanted) -> list[Replica]:
    """Those that have the bundle, and say where they listen. Raises Skipped where there is none."""
    warm = [one for one in replicas if one.has_warm(wanted)]
    reached = [one for one in warm if one.http is not None and not one.draining]
    for one in warm:
        if one.http is None:
            LOG.warning("replica %s does not say where its HTTP listens: it is not asked; upgrade it", one.name)
    if not reached:
        bundle = f"bundle {wanted.digest[:_SHOWN_DIGEST]}"
        raise Skipped(f"no replica that can be asked has version {wanted.version} of {bundle} warm")
    return reached


def _bundle(run: Run, settings: BatchSettings) -> tuple[Manifest, FeatureTransform]:
    allowed = settings.allowed_bundle_urls
    try:
        manifest, _ = fetch_manifest(run.bundle_url, run.bundle_digest, allowed)
        return manifest, make_transform(manifest, fetch_tokenizer(run.bundle_url, manifest, allowed))
    except BundleError as error:
        raise Skipped(f"the bundle cannot be read: {error}") from None


def _rows(run: Run, settings: BatchSettings, manifest: Manifest, sample: Sample) -> _Rows:
    rows = _Rows()
    for entity, packed in sample:
        value = unpack(packed, entity, run.ordinal, manifest.output.stored_width)
        rows.stored[entity] = list(value.outputs)
    rows.records = _records(run, manifest, list(rows.stored))
    _add_table(run, settings, rows)
    return rows


def _records(run: Run, manifest: Manifest, entities: Sequence[bytes]) -> dict[bytes, Record]:
    """The raw records of the run's files, null for NaN, as the feature table holds them."""
    columns = ["entity", *manifest.feature_names]
    chosen = pc.field("entity").isin(pa.array([entity.decode() for entity in entities], pa.string()))
    try:
        found = dataset(run.place("features")).to_table(columns=columns, filter=chosen).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise Skipped(f"the run's features cannot be read: {error}") from None
    return {row.pop("entity").encode(): {name: _known(value) for name, value in row.items()} for row in found}


def _known(value: object) -> object:
    return None if isinstance(value, float) and np.isnan(value) else value


def _add_table(run: Run, settings: BatchSettings, rows: _Rows) -> None:
    """Looks the entities up in the run's feature table, from which live answers will come."""
    features = run.report("features")
    if features is None:
        rows.not_in_table = len(rows.stored)
        return
    listed, buckets = features["features"], run.count("features", "buckets")
    assert isinstance(listed, list), "features of report-features.json are names"
    names = [str(name) for name in listed]
    with connect(settings) as redis:
        pipeline = redis.pipeline(transaction=False)
        for entity in rows.stored:
            pipeline.hget(feature_key(run.model, run.generation, bucket_of(entity, buckets)), field_of(entity))
        found = pipeline.execute()
    for entity, packed in zip(rows.stored, found, strict=True):
        if packed is None:
            rows.not_in_table += 1
        elif packed != _packed(entity, rows.records.get(entity), names):
            rows.table[entity] = None
            with suppress(CorruptValue):
                rows.table[entity] = unpack_record(packed, entity, names)


def _packed(entity: bytes, record: Record | None, names: Sequence[str]) -> bytes | None:
    """As the features job packs it; None where it cannot be."""
    try:
        return None if record is None else pack_record(entity, [record.get(name) for name in names])
    except ValueError:
        return None


def _compare(
    run: Run,
    settings: BatchSettings,
    replicas: Sequence[Replica],
    manifest: Manifest,
    transform: FeatureTransform,
    rows: _Rows,
) -> dict[str, object]:
    of_table = {entity: record for entity, record in rows.table.items() if record is not None}
    with LiveTierClient() as client:
        asking = Asking(
            client, replicas, wanted_by(run), manifest, settings.live_timeout_s, settings.parity_timeout_s
        )
        skipped = None
        answers, table_answers = _Answers(), _Answers()
        try:
            # The few first: of an entity without them nothing is known.
            table_answers.add(asking, transform, of_table)
            answers.add(asking, transform, rows.records)
        except NotAnswered as reason:
            skipped = str(reason)
    compared = _compared(manifest, rows, answers, table_answers, is_whole=skipped is None)
    more = {"not_in_table": rows.not_in_table, "replicas": dict(asking.rows), "skipped": skipped}
    return {**figures(manifest, compared), **more}


@dataclass
class _Answers:
    """(W,) outputs and replica by entity. `unusable`: the transform refuses their features."""

    outputs: dict[bytes, tuple[Float32Array, str]] = field(default_factory=dict)
    unusable: set[bytes] = field(default_factory=set)

    def add(self, asking: Asking, transform: FeatureTransform, records: Mapping[bytes, Record]) -> None:
        """Raises NotAnswered; what was answered before stays."""
        entities = list(records)
        known = frozenset(transform.feature_names)
        done = transform.records(
            [{name: value for name, value in records[one].items() if name in known} for one in entities]
        )
        self.unusable |= {entities[row] for row in done.bad_rows}
        for group in done.groups():
            good = np.array([row for row in group.tolist() if row not in done.bad_rows], dtype=np.int64)
            most = asking.max_batch_rows
            for start in range(0, len(good), most):
                rows = good[start : start + most]
                outputs, replica = asking.stored_outputs(done.take(rows))
                for place, row in enumerate(rows.tolist()):
                    self.outputs[entities[row]] = outputs[place], replica


def _compared(
    manifest: Manifest, rows: _Rows, answers: _Answers, table_answers: _Answers, is_whole: bool
) -> Compared:
    """Entities that were answered; and, of features that are gone or unusable now, those that cannot be asked."""
    nothing = np.full(manifest.output.stored_width, np.nan, np.float32)
    entities, of_run, of_table, replicas, gone = [], [], [], [], []
    for entity in rows.stored:
        is_gone = is_whole and (entity not in rows.records or entity in answers.unusable)
        if entity not in answers.outputs and not is_gone:
            continue
        outputs, replica = answers.outputs.get(entity, (nothing, ""))
        entities.append(entity)
        replicas.append(replica)
        gone.append(is_gone)
        of_run.append(outputs)
        of_table.append(table_answers.outputs.get(entity, (nothing, ""))[0] if entity in rows.table else outputs)
    shape = len(entities), manifest.output.stored_width
    return Compared(
        [entity.decode() for entity in entities],
        np.array([rows.stored[entity] for entity in entities], np.float32).reshape(shape),
        np.array(of_run, np.float32).reshape(shape),
        np.array(of_table, np.float32).reshape(shape),
        replicas,
        np.array(gone, dtype=bool),
    )
