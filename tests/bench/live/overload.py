"""Twice what the device can give, with a deadline: what is answered in time, how refusals go, how it recovers."""

import logging
from dataclasses import dataclass

import numpy as np

from tests.bench.known import MAX_BATCH_ROWS
from tests.bench.live.asking import Requests, Server
from tests.bench.live.measure import DEVICE, Run, run_load
from tests.bench.live.plan import Plan
from tests.bench.load.arrivals import Phase
from tests.bench.load.summary import Latencies, seconds_to_recovery

log = logging.getLogger(__name__)

RATE_PER_S, DEADLINE_MS = 1500, 250
NORMAL_RATE_PER_S = 100
_REFUSED = (503, 504)
# The queue has filled by then, so that its filling counts neither for nor against the server.
_FILLING_S = 1.0


@dataclass(frozen=True)
class OverloadResult:
    """Of what was due while the load lasted, but for its first second.

    Attributes:
        goodput_share: good answers within the deadline, counted from when they were due, over the device's rows/s.
        refusals: latency of all answers 503 and 504; `by_code` of each code.
        recovery_s: from the end of the load to the first of ten consecutive probes that are good and under twice
            the mean that the same probes had before the load; inf where there are none.
    """

    goodput_share: float
    offered: int
    good: Latencies
    refusals: Latencies
    by_code: dict[str, Latencies]
    unanswered: int
    recovery_s: float
    normal: Latencies
    wrong: int
    late_p99_ms: float


def measure_overload(server: Server, requests: Requests, plan: Plan, seed: int) -> OverloadResult:
    phases = [
        Phase(NORMAL_RATE_PER_S, plan.normal_s),
        Phase(RATE_PER_S, plan.overload_s),
        Phase(NORMAL_RATE_PER_S, plan.recovery_s),
    ]
    log.info("overload: %d a second for %g s, deadline %d ms", RATE_PER_S, plan.overload_s, DEADLINE_MS)
    deadline = {"X-Deadline-Ms": str(DEADLINE_MS)}
    run = run_load(server, requests, phases, seed, headers=deadline, patience_s=3.0)
    result = overload_result(run, plan.normal_s, plan.normal_s + plan.overload_s)
    log.info(
        "overload: %.3f of the device in time; refusals' p99 %.1f ms; recovery %.2f s",
        *(result.goodput_share, result.refusals.p99_ms, result.recovery_s),
    )
    return result


def overload_result(run: Run, begins_s: float, ends_s: float) -> OverloadResult:
    """From a run whose overload lasts from `begins_s` to `ends_s`, with probes before and after."""
    since_s = begins_s + _FILLING_S
    is_load = (run.due_s >= since_s) & (run.due_s < ends_s)
    is_good, is_refused = run.status == 200, np.isin(run.status, _REFUSED)
    good_ms = run.latency_ms[is_load & is_good]
    device_rows_per_s = DEVICE.rows_per_s(MAX_BATCH_ROWS)
    normal = Latencies.of(run.latency_ms[is_good & (run.due_s < begins_s)])
    probe_ms = np.where(is_good, run.latency_ms, np.inf)[run.due_s >= ends_s]
    codes = np.array(run.code)
    return OverloadResult(
        goodput_share=float((good_ms <= DEADLINE_MS).sum() / (ends_s - since_s) / device_rows_per_s),
        offered=int(is_load.sum()),
        good=Latencies.of(good_ms),
        refusals=Latencies.of(run.latency_ms[is_load & is_refused]),
        by_code={
            str(code): Latencies.of(run.latency_ms[is_load & is_refused & (codes == code)])
            for code in np.unique(codes[is_load & is_refused])
        },
        unanswered=int((is_load & (run.status == 0)).sum()),
        recovery_s=seconds_to_recovery(run.due_s[run.due_s >= ends_s] - ends_s, probe_ms, 2 * normal.mean_ms),
        normal=normal,
        wrong=run.wrong,
        late_p99_ms=run.late_p99_ms,
    )
