"""Metrics of the API, folded once a second from the log's columns: nothing is counted in a request.

Label values come from our own enumerations and settings, never from what a caller sends, so the number of series
is bounded. Workers share a folder by prometheus-client's multi-process mode, which `__main__` switches on.
"""

import os
from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

from online.api.requestlog.buffer import Columns

Float64Array = npt.NDArray[np.float64]

STAGES = ("route", "lookup", "features", "queue", "batch", "execute", "post")
# Places in `schemas.arrow.REQUEST_LOG`, held against it by a test: importing it here would load pyarrow.
SOURCE, REASON, STATUS, CODE, TOTAL, FIRST_STAGE, BATCH_ROWS = 7, 8, 9, 10, 14, 15, 22
_SECONDS = (
    0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0,
)  # fmt: skip
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class _Folded(Histogram):
    """A histogram that takes many observations at once: one by one they would cost more than the requests."""

    def fold(self, values: Float64Array) -> None:
        places = np.searchsorted(self._upper_bounds, values)
        for place, count in enumerate(np.bincount(places).tolist()):
            if count:
                self._buckets[place].inc(count)
        self._sum.inc(float(values.sum()))


class Metrics:
    """One for each worker; `state` gives the totals that other parts count, as (name, labels) to value."""

    def __init__(self, state: Callable[[], Mapping[tuple[str, str, str], float]]) -> None:
        self._state, self._before = state, dict[tuple[str, str, str], float]()
        own = CollectorRegistry()
        self.answers = Counter(
            "hotset_answers", "Answers by source; errors have the source error", ["model", "source"], registry=own
        )
        self.misses = Counter(
            "hotset_misses", "Answers that were not precomputed, by reason", ["model", "reason"], registry=own
        )
        self.problems = Counter("hotset_problems", "Problems by stable code", ["model", "code"], registry=own)
        self.latency = _Folded(
            "hotset_answer_seconds", "Whole answer, by source", ["model", "source"], buckets=_SECONDS, registry=own
        )
        self.stages = _Folded(
            "hotset_stage_seconds", "One stage of an answer", ["model", "stage"], buckets=_SECONDS, registry=own
        )
        self.batch_rows = _Folded(
            "hotset_batch_rows",
            "Rows of the batch that a live answer was in",
            ["model"],
            buckets=_ROWS,
            registry=own,
        )
        self.totals = Counter(
            "hotset_events", "What parts of the service count, by part and event", ["part", "event"], registry=own
        )
        self.levels = Gauge(
            "hotset_level",
            "What parts of the service hold now, summed over workers",
            ["part", "what"],
            registry=own,
            multiprocess_mode="livesum",
        )

    def fold(self, columns_by_model: Mapping[str, Columns], refused: Mapping[str, int]) -> None:
        """Called by the log's thread, once a second."""
        for model, columns in columns_by_model.items():
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

    def _fold_model(self, model: str, columns: Columns) -> None:
        sources, total_s = columns[SOURCE], _numbers(columns[TOTAL]) / 1e6
        for source, count in Tally(sources).items():
            name = str(source) if source else "error"
            self.answers.labels(model, name).inc(count)
            is_all = count == len(sources)
            mine = total_s if is_all else total_s[np.array([one is source for one in sources])]
            self.latency.labels(model, name).fold(mine)
        for reason, count in _tally(columns[REASON]).items():
            self.misses.labels(model, str(reason)).inc(count)
        for code, count in _tally(columns[CODE]).items():
            self.problems.labels(model, str(code)).inc(count)
        for place, stage in enumerate(STAGES):
            if len(passed_us := _numbers(columns[FIRST_STAGE + place])):
                self.stages.labels(model, stage).fold(passed_us / 1e6)
        if len(rows := _numbers(columns[BATCH_ROWS])):
            self.batch_rows.labels(model).fold(rows)


def _tally(values: Sequence[object]) -> Tally[object]:
    """Of what is not None; for most columns of hits that is nothing at all."""
    return Tally() if values.count(None) == len(values) else Tally(value for value in values if value)


def _numbers(values: Sequence[object]) -> Float64Array:
    """Those that are not None, as (n,) float64."""
    if values.count(None) == len(values):
        return np.empty(0)
    found = np.array(values, dtype=np.float64)
    return found[~np.isnan(found)]


def scrape(folder: Path) -> bytes:
    """All workers' metrics in the text format."""
    forget_dead_workers(folder)
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry, path=str(folder))  # type: ignore[no-untyped-call]
    return generate_latest(registry)


def forget_dead_workers(folder: Path) -> None:
    """Gauges of dead workers go; their counters stay, since totals may not fall."""
    for path in folder.glob("gauge_live*_*.db"):
        pid = path.stem.rpartition("_")[2]
        if pid.isdigit() and not _is_alive(int(pid)):
            path.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
