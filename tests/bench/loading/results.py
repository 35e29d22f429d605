"""All that one run of the benchmark found, and the line of JSON that says it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import nan
from statistics import median

from tests.bench.json_line import json_line
from tests.bench.loading.load import LoadRound
from tests.bench.loading.lookups import Watched
from tests.bench.loading.memory import Loaded


@dataclass
class Results:
    """Filled as the parts are measured.

    Attributes:
        start_s: of Spark itself; `first_s`: of a small load that starts its Python workers.
        lookups: by round, before and during.
        throttle_per_s: entities a second that the product was told to load during look-ups.
        memory: by size of the load.
    """

    start_s: float = nan
    first_s: float = nan
    loads: list[LoadRound] = field(default_factory=list)
    lookups: list[tuple[Watched, Watched]] = field(default_factory=list)
    throttle_per_s: int = 0
    memory: list[Loaded] = field(default_factory=list)
    wall_s: float = 0.0

    @property
    def watched(self) -> list[Watched]:
        return [one for pair in self.lookups for one in pair]

    @property
    def wrong(self) -> int:
        return sum(one.wrong for one in self.watched)

    @property
    def errors(self) -> int:
        return sum(one.errors for one in self.watched)

    def load_median(self, read: Callable[[LoadRound], float]) -> float:
        return _median([read(one) for one in self.loads])

    @property
    def p99_ratio(self) -> float:
        """The median of each round's own."""
        return _median([during.latency.p99_ms / before.latency.p99_ms for before, during in self.lookups])

    def growth(self, read: Callable[[Loaded], int]) -> float:
        """Peak memory of the largest load over that of the smallest."""
        return read(self.memory[-1]) / read(self.memory[0]) if self.memory else nan

    def to_json(self) -> bytes:
        """One line. Ratios plain, times by name in ms or s; null for what was not measured."""
        return json_line(self.document())

    def document(self) -> dict[str, object]:
        return {
            "load_over_pipe": self.load_median(lambda one: one.over_pipe),
            "load_entities_per_s": self.load_median(lambda one: one.entities_per_s),
            "lookup_p99_during_over_before": self.p99_ratio,
            "bytes_per_entity": self.load_median(lambda one: one.grown_bytes / one.entities),
            "entities": self.loads[0].entities if self.loads else None,
            "pipe_keys_per_s": self.load_median(lambda one: one.keys_per_s),
            "publish_s": self.load_median(lambda one: one.publish_s),
            "verify_s": self.load_median(lambda one: one.verify_s),
            "rounds_over_pipe": [one.over_pipe for one in self.loads],
            "lookup_p99_before_ms": _median([before.latency.p99_ms for before, _ in self.lookups]),
            "lookup_p99_during_ms": _median([during.latency.p99_ms for _, during in self.lookups]),
            "rounds_p99_ms": [[before.latency.p99_ms, during.latency.p99_ms] for before, during in self.lookups],
            "load_share_during": _median([during.load_share for _, during in self.lookups]),
            "late_p99_ms": max((one.late_p99_ms for one in self.watched), default=None),
            "memory_entities": [one.entities for one in self.memory],
            "worker_rss_growth": self.growth(lambda one: one.worker_bytes),
            "driver_rss_growth": self.growth(lambda one: one.driver_bytes),
            "verify_rss_growth": self.growth(lambda one: one.verify_bytes),
            "throttle_per_s": self.throttle_per_s,
            "lookup_errors": self.errors,
            "wrong_answers": self.wrong,
            "spark_start_s": self.start_s,
            "first_load_s": self.first_s,
            "wall_s": self.wall_s,
        }


def _median(values: Sequence[float]) -> float:
    return median(values) if values else nan
