"""Predicted beside measured, and the line of JSON that says it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan

from tests.bench.json_line import json_line
from tests.bench.planning.bound import Triple
from tests.bench.planning.plan import JUDGED_BELOW, MEAN_WITHIN, P99_WITHIN


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """One load point. Times in ms.

    Attributes:
        outside_ms, outside_row_ms, device_ms: what the tier adds, which is in the prediction: to an answer, to it
            for each row of its batch, and to a batch; measured under another load.
        predicted_*: of the long run at this rate, as `plan` says it: judged.
        arrivals_*: the same for the very arrivals that were sent: what is left when their chance is taken out.
        overruns: stalls of the emulated device while it was measured.
        first: the attempt before this one, where the device stalled in it.
    """

    device: str
    utilisation: float
    rate_per_s: float
    outside_ms: float
    outside_row_ms: float
    device_ms: float
    predicted_mean_ms: float
    predicted_p99_ms: float
    predicted_batch_rows: float
    arrivals_mean_ms: float
    arrivals_p99_ms: float
    measured_mean_ms: float
    measured_p99_ms: float
    measured_batch_rows: float
    errors: int
    wrong: int
    overruns: int
    late_p99_ms: float
    first: "Loaded | None" = None

    @property
    def mean_error(self) -> float:
        """Relative to what was measured; 0.05 is a prediction 5 % too high."""
        return self.predicted_mean_ms / self.measured_mean_ms - 1

    @property
    def p99_error(self) -> float:
        return self.predicted_p99_ms / self.measured_p99_ms - 1

    @property
    def arrivals_mean_error(self) -> float:
        return self.arrivals_mean_ms / self.measured_mean_ms - 1

    @property
    def arrivals_p99_error(self) -> float:
        return self.arrivals_p99_ms / self.measured_p99_ms - 1

    @property
    def is_judged(self) -> bool:
        return self.utilisation < JUDGED_BELOW


@dataclass
class Results:
    """Filled as the parts are measured. `busy_before`: share of all cores, by others, before anything began."""

    emulated: list[Loaded] = field(default_factory=list)
    cpu: list[Loaded] = field(default_factory=list)
    triples: Sequence[Triple] = ()
    busy_before: float = 0.0
    wall_s: float = 0.0

    @property
    def wrong(self) -> int:
        return sum(one.wrong for one in (*self.emulated, *self.cpu))

    @property
    def violations(self) -> int:
        return sum(triple.is_violation for triple in self.triples)

    def document(self) -> dict[str, object]:
        judged = [one for one in self.emulated if one.is_judged]
        over_bound = [triple.mean_over_bound for triple in self.triples]
        return {
            "mean_error_max_below_85pct": _most([one.mean_error for one in judged]),
            "p99_error_max": _most([one.p99_error for one in judged]),
            "bound_violations": self.violations,
            "mean_error_max_all": _most([one.mean_error for one in self.emulated]),
            "p99_error_max_all": _most([one.p99_error for one in self.emulated]),
            "mean_error_max_on_arrivals": _most([one.arrivals_mean_error for one in judged]),
            "p99_error_max_on_arrivals": _most([one.arrivals_p99_error for one in judged]),
            "mean_error_within_10pct": sum(abs(one.mean_error) <= MEAN_WITHIN for one in judged),
            "p99_error_within_20pct": sum(abs(one.p99_error) <= P99_WITHIN for one in judged),
            "points_judged": len(judged),
            "points_measured_again": sum(one.first is not None for one in self.emulated),
            "bound_triples": len(self.triples),
            "mean_over_bound_min": min(over_bound, default=nan),
            "mean_over_bound_max": max(over_bound, default=nan),
            "cpu_mean_error_max": _most([one.mean_error for one in self.cpu]),
            "cpu_p99_error_max": _most([one.p99_error for one in self.cpu]),
            "wrong_answers": self.wrong,
            "errors": sum(one.errors for one in (*self.emulated, *self.cpu)),
            "emulated_overruns": sum(one.overruns for one in self.emulated),
            "busy_before": self.busy_before,
            "points": [_point(one) for one in (*self.emulated, *self.cpu)],
            "wall_s": self.wall_s,
        }

    def to_json(self) -> bytes:
        return json_line(self.document())


def _point(one: Loaded) -> dict[str, object]:
    fields: dict[str, object] = {name: getattr(one, name) for name in one.__dataclass_fields__ if name != "first"}
    first = None if one.first is None else _point(one.first)
    return {**fields, "mean_error": one.mean_error, "p99_error": one.p99_error, "first": first}


def _most(errors: Sequence[float]) -> float:
    return max(map(abs, errors), default=nan)
