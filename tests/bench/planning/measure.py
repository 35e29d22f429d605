"""The live tier under load, beside what the planner says before it is loaded.

The planner is given what it would be given in practice: T(b) as the node measured it, and what a request log holds
of one run of load that is not judged (`calibration.py`). Nothing is fitted to the loads that follow.
"""

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from online.api.settings import ApiSettings
from online.inference.node.settings import InferenceSettings
from online.planning.batching import BatchMs
from online.planning.device_queue import BatchingRule, run
from online.planning.profile_file import read_profile
from online.planning.simulation import REQUESTS, poisson_ms, simulate
from schemas.bundle import Bundle
from tests.bench.known import MAX_BATCH_ROWS
from tests.bench.live.measure import Run
from tests.bench.live.stack import Stack, product
from tests.bench.load.summary import Latencies
from tests.bench.planning.asking import Asking
from tests.bench.planning.calibration import Calibrated, calibrate
from tests.bench.planning.plan import Plan, Point
from tests.bench.planning.results import Loaded
from tests.support.api_process import ROOT

log = logging.getLogger(__name__)

_WARM_EVERY_S = 0.06
_PROFILE_S = 120.0


@dataclass
class Spare:
    """Seconds of load that are left for measuring again."""

    left_s: float

    def take(self, s: float) -> bool:
        if s > self.left_s:
            return False
        self.left_s -= s
        return True


@dataclass(frozen=True)
class Known:
    """What is known before the load: T(b) as it was profiled, and what the tier adds to it."""

    profiled_ms: BatchMs
    added: Calibrated

    def batch_ms(self, rows: int) -> float:
        return self.profiled_ms(rows) + self.added.device_ms

    @property
    def rule(self) -> BatchingRule:
        """The product's, as its settings have it where nobody sets them; the API's time counts to its deadline."""
        delay_ms, deadline_ms = (
            float(fields[name].default)
            for fields, name in (
                (InferenceSettings.model_fields, "max_queue_delay_ms"),
                (ApiSettings.model_fields, "deadline_ms"),
            )
        )
        return BatchingRule(MAX_BATCH_ROWS, delay_ms, deadline_ms - self.added.outside.mean_ms(1))

    @property
    def capacity_per_s(self) -> float:
        """By the profile, so that a point is the same share of it in every run of the benchmark."""
        return capacity_per_s(self.profiled_ms)


def capacity_per_s(batch_ms: BatchMs) -> float:
    return 1e3 * MAX_BATCH_ROWS / batch_ms(MAX_BATCH_ROWS)


@contextmanager
def loaded_tier(
    folder: Path,
    bundle: Bundle,
    device: str,
    plan: Plan,
    asking: Asking,
    most_per_s: float = float("inf"),
    placed: Callable[[Stack], AbstractContextManager[object]] = nullcontext,
) -> Iterator[tuple[Stack, Known]]:
    """The two tiers with one device, and what is known of them; `placed` holds while they are loaded."""
    log.info("%s: profile, then the two tiers", device)
    batch_ms = _profiled(folder, bundle, device, plan.rounds)
    with product(folder, bundle, device) as stack, placed(stack):
        every_s = max(_WARM_EVERY_S, 4 * batch_ms(1) / 1e3)
        asking.run(stack, np.arange(1, 11) * every_s, 10)  # connections and code paths that were never used
        full_per_s = min(most_per_s, capacity_per_s(batch_ms))
        added = calibrate(stack, asking, batch_ms, full_per_s, plan.calibrated_s)
        log.info(
            "%s, not judged: %.2f ms outside and %.3f ms a row of the batch; a batch %+.2f ms",
            *(device, added.outside.fixed_ms, added.outside.row_ms, added.device_ms),
        )
        yield stack, Known(batch_ms, added)


def _profiled(folder: Path, bundle: Bundle, device: str, rounds: int) -> BatchMs:
    """T(b) by the product's own command, as a user has it: the line where it fits, else the measured sizes."""
    out = folder / "profile.json"
    words = ["--bundle", str(bundle.folder), "--device", device, "--threads", "1", "--rounds", str(rounds)]
    command = [sys.executable, "-m", "online.inference", "profile", *words, "--out", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=_PROFILE_S, start_new_session=True)
    profile = read_profile(out)
    log.info("%s: tau0 %.3f ms, alpha %.3f ms", device, profile.fit.time.tau0_ms, profile.fit.time.alpha_ms)
    return profile.replica(price_per_hour=0.0).batch_ms


def measure_points(
    device: str, stack: Stack, known: Known, points: Sequence[Point], plan: Plan, asking: Asking, seed: int,
    most_per_s: float = float("inf"), spare: Spare | None = None,
) -> list[Loaded]:  # fmt: skip
    """Each point's prediction first, then its load; once more where the device stalled, and time is to spare."""
    found = []
    for place, point in enumerate(points):
        rate_per_s = point.utilisation * min(known.capacity_per_s, most_per_s)
        one = _measure_point(device, stack, known, rate_per_s, point, plan, asking, seed + place)
        if one.overruns and spare is not None and spare.take(plan.runs * (plan.warm_s + point.measured_s)):
            log.info("the emulated device stalled %d times: measured again, once", one.overruns)
            again = _measured(stack, known, rate_per_s, point, plan, asking, seed + place)
            one = replace(one, **again, first=one)
            _told(one)
        found.append(one)
    return found


def _measure_point(
    device: str, stack: Stack, known: Known, rate_per_s: float, point: Point, plan: Plan, asking: Asking, seed: int
) -> Loaded:
    predicted = simulate(rate_per_s, known.batch_ms, known.rule, known.added.outside, requests=REQUESTS, seed=seed)
    one = Loaded(
        device=device,
        utilisation=rate_per_s / known.capacity_per_s,
        rate_per_s=rate_per_s,
        outside_ms=known.added.outside.fixed_ms,
        outside_row_ms=known.added.outside.row_ms,
        device_ms=known.added.device_ms,
        predicted_mean_ms=predicted.mean_ms.value,
        predicted_p99_ms=predicted.p99_ms.value,
        predicted_batch_rows=predicted.batch_rows,
        **_measured(stack, known, rate_per_s, point, plan, asking, seed),
    )
    _told(one)
    return one


def _measured(
    stack: Stack, known: Known, rate_per_s: float, point: Point, plan: Plan, asking: Asking, seed: int
) -> dict[str, float]:
    """Fields of `Loaded`: medians over the runs."""
    before = stack.device_counts()
    runs = [_load(stack, rate_per_s, point, plan, asking, 1000 * seed + again) for again in range(plan.runs)]
    counted = {name: value - before.get(name, 0.0) for name, value in stack.device_counts().items()}
    latencies = [one.latencies(plan.warm_s) for one in runs]
    expected = [_expected(known, one, plan.warm_s) for one in runs]
    return {
        "arrivals_mean_ms": median(one.mean_ms for one in expected),
        "arrivals_p99_ms": median(one.p99_ms for one in expected),
        "measured_mean_ms": median(one.mean_ms for one in latencies),
        "measured_p99_ms": median(one.p99_ms for one in latencies),
        "measured_batch_rows": counted["rows"] / counted["batches"],
        "errors": sum(sum(one.errors(plan.warm_s).values()) for one in runs),
        "wrong": sum(one.wrong for one in runs),
        "overruns": round(counted.get("emulated_overruns", 0.0)),
        "late_p99_ms": median(one.late_p99_ms for one in runs),
    }


def _expected(known: Known, measured: Run, warm_s: float) -> Latencies:
    """What the planner's queue makes of the very arrivals that were sent: the prediction without their chance."""
    found, outside = run(1e3 * measured.due_s, known.batch_ms, known.rule), known.added.outside
    latency_ms = found.latency_ms + outside.fixed_ms + outside.row_ms * found.rows
    return Latencies.of(latency_ms[(measured.due_s >= warm_s) & ~np.isnan(latency_ms)])


def _load(stack: Stack, rate_per_s: float, point: Point, plan: Plan, asking: Asking, seed: int) -> Run:
    """Exactly as many requests as the rate says, so that chance in their number is no error of the prediction."""
    count = round(rate_per_s * (plan.warm_s + point.measured_s))
    return asking.run(stack, poisson_ms(rate_per_s, count, seed) / 1e3, rate_per_s)


def _told(one: Loaded) -> None:
    log.info(
        "%s at %.0f/s: mean %.1f predicted, %.1f measured (%+.1f %%); p99 %.1f, %.1f (%+.1f %%)",
        *(one.device, one.rate_per_s, one.predicted_mean_ms, one.measured_mean_ms, 100 * one.mean_error),
        *(one.predicted_p99_ms, one.measured_p99_ms, 100 * one.p99_error),
    )
