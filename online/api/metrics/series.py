"""Metrics of the API, folded once a second from the log's columns: nothing is counted in a request.

Label values come from our own enumerations, from settings and from routed versions, never from what a caller
sends, so the number of series is bounded. Workers share a folder by prometheus-client's multi-process mode, which
`__main__` switches on.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest, multiprocess

from online.api.metrics.folding import FoldedHistogram, by_value, counts_of, numbers, picked, tally
from online.api.metrics.slots import forget_dead
from online.api.requestlog.columns import Columns
from schemas.names import STAGES

# Places in `schemas.arrow.REQUEST_LOG`, held against it by a test: importing it here would load pyarrow.
VERSION, ARM, SOURCE, REASON, STATUS, CODE, CONFIDENCE = 3, 6, 7, 8, 9, 10, 12
TOTAL, FIRST_STAGE, BATCH_ROWS = 14, 15, 22
SECONDS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075,
    0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0,
)  # fmt: skip
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_CONFIDENCES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
# A model has a few versions at a time; what a process has seen of them over its years stays a bounded number.
_MAX_VERSIONS = 32
ERROR, OTHER = "error", "other"

State = Mapping[tuple[str, str, str], float]


class ModelLevels(NamedTuple):
    """How one model stands now; NaN where it has no such thing."""

    generation_age_s: float
    generation_rows: float
    warm_replicas: float


class Metrics:
    """One for each worker.

    Args:
        state: totals and levels that other parts count, as (kind, part, name) to value.
        models: how each routed model stands.
        disk_free: bytes left where the worker writes.
    """

    def __init__(
        self,
        state: Callable[[], State],
        models: Callable[[], Mapping[str, ModelLevels]] = dict,
        disk_free: Callable[[], float] = lambda: float("nan"),
    ) -> None:
        self._state, self._models, self._disk_free = state, models, disk_free
        self._before: dict[tuple[str, str, str], float] = {}
        self._versions: dict[str, set[str]] = {}
        made = _Maker(CollectorRegistry())
        self.answers = made.counter(
            "answers", "Answers; errors have the source error", "model", "version", "arm", "source"
        )
        self.misses = made.counter(
            "misses", "Answers that were not precomputed, by reason", "model", "version", "reason"
        )
        self.problems = made.counter("problems", "Problems by stable code", "model", "code")
        self.latency = made.histogram("answer_seconds", "Whole answer", SECONDS, "model", "source")
        self.stages = made.histogram(
            "stage_seconds", "One stage of an answer", SECONDS, "model", "source", "stage"
        )
        self.batch_rows = made.histogram(
            "batch_rows", "Rows of the batch that a live answer was in", _ROWS, "model"
        )
        self.confidence = made.histogram("confidence", "Confidence of answers", _CONFIDENCES, "model", "source")
        self.totals = made.counter("events", "What parts of the service count", "part", "event")
        self.levels = made.gauge(
            "level", "What parts of the service hold now, summed over workers", "livesum", "part", "what"
        )
        self.generation_age = made.gauge(
            "generation_age_seconds", "Since the stable version's generation was computed", "livemax", "model"
        )
        self.generation_rows = made.gauge("generation_rows", "Entities in it", "livemax", "model")
        self.warm_replicas = made.gauge(
            "warm_replicas",
            "Replicas that have the stable version warm, of the worker that knows most",
            "livemax",
            "model",
        )
        self.disk = made.gauge("disk_free_bytes", "Left for the unfinished request log", "livemin")

    def fold(self, taken: Sequence[tuple[str, Columns]], refused: Mapping[str, int]) -> None:
        """Called by the log's thread, once a second. `taken`: columns with their model."""
        for model, columns in taken:
            self._fold_model(model, columns)
        for code, count in refused.items():
            self.problems.labels("", code).inc(count)
        for (kind, part, name), value in self._state().items():
            if kind == "level":
                self.levels.labels(part, name).set(value)
            else:
                grown = value - self._before.get((kind, part, name), 0.0)
                self._before[(kind, part, name)] = value
                self.totals.labels(part, name).inc(max(0.0, grown))
        for model, levels in self._models().items():
            self.generation_age.labels(model).set(levels.generation_age_s)
            self.generation_rows.labels(model).set(levels.generation_rows)
            self.warm_replicas.labels(model).set(levels.warm_replicas)
        self.disk.set(self._disk_free())

    def _fold_model(self, model: str, columns: Columns) -> None:
        versions, arms, sources = columns[VERSION], columns[ARM], columns[SOURCE]
        for (version, arm, source), count in counts_of(versions, arms, sources):
            labels = (model, self._version(model, version), arm or "", str(source or ERROR))
            self.answers.labels(*labels).inc(count)
        reasons = columns[REASON]
        if tally(reasons):
            for (version, reason), count in counts_of(versions, reasons):
                if reason is not None:
                    self.misses.labels(model, self._version(model, version), str(reason)).inc(count)
        for code, count in tally(columns[CODE]).items():
            self.problems.labels(model, str(code)).inc(count)
        if (rows := numbers(columns[BATCH_ROWS])) is not None:
            self.batch_rows.labels(model).fold(picked(rows, None))
        self._fold_times(model, columns)

    def _fold_times(self, model: str, columns: Columns) -> None:
        total, confidence = numbers(columns[TOTAL]), numbers(columns[CONFIDENCE])
        stages = [(stage, numbers(columns[FIRST_STAGE + place])) for place, stage in enumerate(STAGES)]
        for source, places in by_value(columns[SOURCE]):
            name = str(source or ERROR)
            if total is not None:
                self.latency.labels(model, name).fold(picked(total, places) / 1e6)
            if confidence is not None and len(known := picked(confidence, places)):
                self.confidence.labels(model, name).fold(known)
            for stage, passed_us in stages:
                if passed_us is not None and len(known := picked(passed_us, places)):
                    self.stages.labels(model, name, stage).fold(known / 1e6)

    def _version(self, model: str, version: object) -> str:
        """The label of a version: its name, until there have been very many."""
        if version is None:
            return ""
        known, name = self._versions.setdefault(model, set()), str(version)
        if name not in known:
            if len(known) >= _MAX_VERSIONS:
                return OTHER
            known.add(name)
        return name


class _Maker:
    """Makes metrics of one registry, whose names begin alike."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"hotset_{name}", text, labels, registry=self._registry)

    def histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> FoldedHistogram:
        return FoldedHistogram(f"hotset_{name}", text, labels, buckets=buckets, registry=self._registry)

    def gauge(self, name: str, text: str, mode: Any, *labels: str) -> Gauge:
        return Gauge(f"hotset_{name}", text, labels, registry=self._registry, multiprocess_mode=mode)


def scrape(folder: Path) -> bytes:
    """All workers' metrics in the text format."""
    forget_dead(folder)
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry, path=str(folder))  # type: ignore[no-untyped-call]
    return generate_latest(registry)
