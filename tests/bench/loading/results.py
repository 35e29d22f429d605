"""All that one run of the benchmark found, and the line of JSON that says it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import nan
from statistics import median

from tests.bench.json_line import json_line
from tests.bench.loading.load import LoadRound
from tests.bench.loading.memory import Loaded
from tests.bench.loading.turns import Turns


@dataclass
class Results:
    """Filled as the parts are measured.

    Attributes:
        start_s: of Spark itself; `first_s`: of a small load that starts its Python workers.
        lookups: in turns without and during a load; None where none were asked.
        throttle_per_s: entities a second that the product was told to load during look-ups.
        memory: by size of the load.
    """

    start_s: float = nan
    first_s: float = nan
    loads: list[LoadRound] = field(default_factory=list)
    lookups: Turns | None = None
    throttle_per_s: int = 0
    memory: list[Loaded] = field(default_factory=list)
    wall_s: float = 0.0

    @property
    def wrong(self) -> int:
        return self.lookups.wrong if self.lookups else 0

    @property
    def errors(self) -> int:
        return self.lookups.errors if self.lookups else 0

    def load_median(self, read: Callable[[LoadRound], float]) -> float:
        return _median([read(one) for one in self.loads])

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
            "lookup_p99_during_over_before": self.lookups.ratio if self.lookups else nan,
            "bytes_per_entity": self.load_median(lambda one: one.grown_bytes / one.entities),
            "entities": self.loads[0].entities if self.loads else None,
            "pipe_keys_per_s": self.load_median(lambda one: one.keys_per_s),
            "publish_s": self.load_median(lambda one: one.publish_s),
            "verify_s": self.load_median(lambda one: one.verify_s),
            "rounds_over_pipe": [one.over_pipe for one in self.loads],
            **_of_lookups(self.lookups),
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


def _of_lookups(found: Turns | None) -> dict[str, object]:
    if found is None:
        return {}
    low, high = found.interval()
    return {
        "lookup_p99_ratio_low": low,
        "lookup_p99_ratio_high": high,
        "lookup_p99_ratio_median_of_turns": found.median_ratio,
        "lookup_p99_before_ms": found.latency_before.p99_ms,
        "lookup_p99_during_ms": found.latency_during.p99_ms,
        "lookup_p50_before_ms": found.latency_before.p50_ms,
        "lookup_p50_during_ms": found.latency_during.p50_ms,
        "lookup_turns": len(found.before),
        "lookups_before": found.latency_before.count,
        "lookups_during": found.latency_during.count,
        "loaded_per_s_during": found.loaded_per_s,
        "redis_longest_command_ms": found.longest_ms,
        "late_p99_ms": found.late_p99_ms,
    }


def _median(values: Sequence[float]) -> float:
    return median(values) if values else nan
