"""The backtest of one trace, as the numbers of the benchmark's answer."""

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from batch_scoring.hotset.backtest import backtest
from batch_scoring.hotset.plan import Plan
from batch_scoring.hotset.trace import cut
from tests.bench.hotset.traces import Named

log = logging.getLogger(__name__)

SLOT_SHARE = 0.05
_AT_ONCE = 2


def measure_all(found: Sequence[Named]) -> dict[str, dict[str, object]]:
    """By name, two at a time: each is of one core."""
    with ProcessPoolExecutor(_AT_ONCE, get_context("spawn")) as pool:
        said = {}
        for one, result in zip(found, pool.map(measure, found), strict=True):
            said[one.name] = result
            log.info("%s: %s requests, %.0f s", one.name, f"{result['requests']:,}", result["wall_s"])
    return said


def measure(one: Named) -> dict[str, object]:
    began_s = time.monotonic()
    trace, windows = cut(one.read())
    slots = max(1, int(SLOT_SHARE * (one.known or trace.entities)))
    found = backtest(trace, windows, Plan(slots, slots))
    return {
        "requests": len(trace.codes),
        "entities": trace.entities,
        "known": one.known or trace.entities,
        "slots": slots,
        "windows": len(found.windows),
        "declined": found.reason_declined is not None,
        **found.hit_rates,
        "best_split": found.best_split,
        "wall_s": time.monotonic() - began_s,
    }
