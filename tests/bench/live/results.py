"""All that one run of the benchmark found, and the line of JSON that says it."""

from dataclasses import dataclass, field

from tests.bench.json_line import json_line
from tests.bench.live.cpu_model import CpuResult
from tests.bench.live.overload import OverloadResult
from tests.bench.live.plan import RATES
from tests.bench.live.rates import RateResult, median_ratios, medians


@dataclass
class Results:
    """Filled as the parts are measured."""

    product: list[RateResult] = field(default_factory=list)
    peers: list[RateResult] = field(default_factory=list)
    overload: OverloadResult | None = None
    cpu: CpuResult | None = None
    wall_s: float = 0.0

    @property
    def wrong_answers(self) -> int:
        parts = [*self.product, *self.peers, self.overload, self.cpu]
        return sum(part.wrong for part in parts if part is not None)

    def to_json(self) -> bytes:
        """One line. Times in ms, shares and ratios plain; null for what was not measured or never came."""
        return json_line(self.document())

    def document(self) -> dict[str, object]:
        ratios = {rate: median_ratios(self.product, rate) for rate in RATES}
        return {
            **{f"mean_over_ideal_{rate}": mean for rate, (mean, _) in ratios.items()},
            **{f"p99_over_ideal_{rate}": p99 for rate, (_, p99) in ratios.items()},
            **_overload(self.overload),
            **_cpu(self.cpu),
            "wrong_answers": self.wrong_answers,
            "errors": sum(sum(result.errors.values()) for result in self.product),
            "late_p99_ms": max((result.late_p99_ms for result in self.product), default=float("nan")),
            "emulated_overruns": sum(result.counts.get("emulated_overruns", 0.0) for result in self.product),
            "runs": [_run(result) for result in self.product],
            "peers": [_run(result) for result in medians(self.peers)],
            "wall_s": self.wall_s,
        }


def _overload(result: OverloadResult | None) -> dict[str, object]:
    nothing = float("nan")
    if result is None:
        names = ("overload_goodput_share", "overload_refusal_p99_ms", "overload_recovery_s")
        return dict.fromkeys(names, nothing)
    return {
        "overload_goodput_share": result.goodput_share,
        "overload_refusal_p99_ms": result.refusals.p99_ms,
        "overload_recovery_s": result.recovery_s,
        "overload_good_p99_ms": result.good.p99_ms,
        "overload_refusals": {code: [one.count, one.p99_ms] for code, one in result.by_code.items()},
        "overload_unanswered": result.unanswered,
        "overload_late_p99_ms": result.late_p99_ms,
        "overload_normal_mean_ms": result.normal.mean_ms,
    }


def _cpu(result: CpuResult | None) -> dict[str, object]:
    if result is None:
        return {"cpu_throughput_over_bare": float("nan")}
    return {
        "cpu_throughput_over_bare": result.tier_over_bare,
        "cpu_bare_rows_per_s": result.bare_rows_per_s,
        "cpu_tier_rows_per_s": result.tier_rows_per_s,
        "cpu_bare_batch_ms": result.bare_batch_ms,
        "cpu_tier_batch_ms": result.tier_batch_ms,
        "cpu_tier_batch_rows": result.tier_batch_rows,
        "cpu_failures": result.failures,
    }


def _run(result: RateResult) -> dict[str, object]:
    return {
        "server": result.server,
        "rate": result.rate_per_s,
        "mean_ms": result.measured.mean_ms,
        "p50_ms": result.measured.p50_ms,
        "p99_ms": result.measured.p99_ms,
        "ideal_mean_ms": result.ideal.mean_ms,
        "ideal_p99_ms": result.ideal.p99_ms,
        "mean_over_ideal": result.mean_over_ideal,
        "p99_over_ideal": result.p99_over_ideal,
        "errors": result.errors,
        "late_p99_ms": result.late_p99_ms,
        "batch_rows": result.batch_rows,
        "emulated_overruns": result.counts.get("emulated_overruns"),
        "cpu_shares": result.cpu_shares,
    }
