"""The live tier under load, beside what the planner says before it is loaded.

The planner is given what it would be given in practice: T(b) as the node measured it, and what an answer takes
outside of queue and device (the API, the wire, the client), from requests sent one at a time before any load. That
is added to every simulated latency. Nothing is fitted to the load that follows.
"""

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from online.api.settings import ApiSettings
from online.inference.node.settings import InferenceSettings
from online.planning.batching import BatchMs
from online.planning.profile_file import read_profile
from online.planning.simulation import REQUESTS, BatchingRule, poisson_ms, simulate
from schemas.bundle import Bundle
from tests.bench.known import MAX_BATCH_ROWS
from tests.bench.live.asking import Requests
from tests.bench.live.measure import Run, run_at
from tests.bench.live.stack import Stack, product
from tests.bench.planning.plan import Plan, Point
from tests.bench.planning.results import Loaded
from tests.support.api_process import ROOT

log = logging.getLogger(__name__)

_ALONE_EVERY_S = 0.06
_PROFILE_S = 120.0
RunAt = Callable[[Stack, np.ndarray, float], Run]


@dataclass(frozen=True)
class Known:
    """What is known before the load: T(b), and the milliseconds of an answer outside of queue and device."""

    batch_ms: BatchMs
    outside_ms: float

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
        return BatchingRule(MAX_BATCH_ROWS, delay_ms, deadline_ms - self.outside_ms)

    @property
    def capacity_per_s(self) -> float:
        return 1e3 * MAX_BATCH_ROWS / self.batch_ms(MAX_BATCH_ROWS)


@contextmanager
def loaded_tier(
    folder: Path, bundle: Bundle, device: str, plan: Plan, run: RunAt
) -> Iterator[tuple[Stack, Known]]:
    """The two tiers with one device, and what is known of them."""
    log.info("%s: profile, then the two tiers", device)
    batch_ms = _profiled(folder, bundle, device, plan.rounds)
    with product(folder, bundle, device) as stack:
        every_s = max(_ALONE_EVERY_S, 4 * batch_ms(1) / 1e3)
        run(stack, np.arange(1, 11) * every_s, 10)  # connections and code paths that were never used
        alone = run(stack, np.arange(1, plan.alone + 1) * every_s, 10)
        outside_ms = max(0.0, float(np.median(alone.latency_ms)) - batch_ms(1))
        log.info("%s: one alone %.2f ms outside the device", device, outside_ms)
        yield stack, Known(batch_ms, outside_ms)


def _profiled(folder: Path, bundle: Bundle, device: str, rounds: int) -> BatchMs:
    """T(b) by the product's own command, as a user has it: the line where it fits, else the measured sizes."""
    out = folder / "profile.json"
    words = ["--bundle", str(bundle.folder), "--device", device, "--threads", "1", "--rounds", str(rounds)]
    command = [sys.executable, "-m", "online.inference", "profile", *words, "--out", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=_PROFILE_S, start_new_session=True)
    profile = read_profile(out)
    log.info("%s: tau0 %.3f ms, alpha %.3f ms", device, profile.fit.time.tau0_ms, profile.fit.time.alpha_ms)
    return profile.replica(price_per_hour=0.0).batch_ms


def known_run(requests: Requests) -> RunAt:
    """Requests whose answers are checked."""
    return lambda stack, due_s, most_per_s: run_at(stack.server, requests, due_s, most_per_s)


def measure_points(
    device: str, stack: Stack, known: Known, points: Sequence[Point], plan: Plan, run: RunAt, seed: int,
    most_per_s: float = float("inf"),
) -> list[Loaded]:  # fmt: skip
    """Each point's prediction first, then its load."""
    return [
        _measure_point(device, stack, known, point, plan, run, seed + place, most_per_s)
        for place, point in enumerate(points)
    ]


def _measure_point(
    device: str, stack: Stack, known: Known, point: Point, plan: Plan, run: RunAt, seed: int, most_per_s: float
) -> Loaded:
    rate_per_s = point.utilisation * min(known.capacity_per_s, most_per_s)
    predicted = simulate(rate_per_s, known.batch_ms, known.rule, requests=REQUESTS, seed=seed)
    before = stack.device_counts()
    runs = [_load(stack, rate_per_s, point, plan, run, 1000 * seed + again) for again in range(plan.runs)]
    counted = {name: value - before.get(name, 0.0) for name, value in stack.device_counts().items()}
    latencies = [one.latencies(plan.warm_s) for one in runs]
    one = Loaded(
        device=device,
        utilisation=rate_per_s / known.capacity_per_s,
        rate_per_s=rate_per_s,
        outside_ms=known.outside_ms,
        predicted_mean_ms=predicted.mean_ms.value + known.outside_ms,
        predicted_p99_ms=predicted.p99_ms.value + known.outside_ms,
        measured_mean_ms=median(one.mean_ms for one in latencies),
        measured_p99_ms=median(one.p99_ms for one in latencies),
        measured_batch_rows=counted["rows"] / counted["batches"],
        predicted_batch_rows=predicted.batch_rows,
        errors=sum(sum(one.errors(plan.warm_s).values()) for one in runs),
        wrong=sum(one.wrong for one in runs),
        overruns=round(counted.get("emulated_overruns", 0.0)),
        late_p99_ms=median(one.late_p99_ms for one in runs),
    )
    log.info(
        "%s at %.0f/s: mean %.1f predicted, %.1f measured (%+.1f %%); p99 %.1f, %.1f (%+.1f %%)",
        *(device, rate_per_s, one.predicted_mean_ms, one.measured_mean_ms, 100 * one.mean_error),
        *(one.predicted_p99_ms, one.measured_p99_ms, 100 * one.p99_error),
    )
    return one


def _load(stack: Stack, rate_per_s: float, point: Point, plan: Plan, run: RunAt, seed: int) -> Run:
    """Exactly as many requests as the rate says, so that chance in their number is no error of the prediction."""
    count = round(rate_per_s * (plan.warm_s + point.measured_s))
    return run(stack, poisson_ms(rate_per_s, count, seed) / 1e3, rate_per_s)
