"""What the tier adds to the profile's T(b), from three short loads that are not judged.

A burst fills batches one after another: how far they are apart, over the profile's T(b), is what each takes to be
stacked, handed over and taken. One run at little load and one at more then tell what an answer takes outside of
queue and device, and what each row of its batch adds: each answer says how long it waited and what it waited for
(`Server-Timing`, the stages of the request log), and answers with the same times on the device shared a batch.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from online.planning.batching import BatchMs
from online.planning.outside import Outside, Rows, fit_outside
from online.planning.simulation import poisson_ms
from tests.bench.known import MAX_BATCH_ROWS
from tests.bench.live.stack import Stack
from tests.bench.load.client import offer
from tests.bench.load.files import Order
from tests.bench.load.generator import Target
from tests.bench.planning.asking import Asking

Milliseconds = npt.NDArray[np.float64]

# Shares of what full batches give; no judged point has them.
LIGHT, HEAVY = 0.1, 0.65
_BURST_BATCHES = 14
# While these are on the device the burst is still being read.
_NOT_COUNTED = 3
_LEAST_APART = 3
# Of what batches take, how far they are apart at least where the device is what spaces them.
_LEAST_OF_TAKEN = 0.9
_PATIENCE_S = 10.0
_STAGES = re.compile(rb"queue;dur=([0-9.]+), batch;dur=([0-9.]+), execute;dur=([0-9.]+)")


@dataclass(frozen=True)
class Calibrated:
    """`outside` of queue and device, the client's share included; `device_ms`: of a batch, over the profile's."""

    outside: Outside
    device_ms: float


@dataclass(frozen=True)
class Timed:
    """Answers, (n,) in order of arrival, without those that do not say their stages."""

    done_ms: Milliseconds
    latency_ms: Milliseconds
    queue_ms: Milliseconds
    on_device_ms: Milliseconds
    rows: Rows

    @classmethod
    def of(cls, due_s: Milliseconds, done_s: Milliseconds, answers: Sequence[bytes]) -> "Timed":
        """Raises ValueError where no answer says its stages."""
        found = [_STAGES.search(answer) for answer in answers]
        is_timed = np.array([one is not None for one in found])
        if not is_timed.any():
            raise ValueError("no answer says how long it was in queue and device: nothing is known of the rest")
        stages_ms = np.array([[float(ms) for ms in one.groups()] for one in found if one is not None])
        done_ms, latency_ms = 1e3 * done_s[is_timed], 1e3 * (done_s - due_s)[is_timed]
        rows = _batch_rows(done_ms, stages_ms[:, 1:])
        return cls(done_ms, latency_ms, stages_ms[:, 0], stages_ms[:, 1:].sum(axis=1), rows)


def calibrate(stack: Stack, asking: Asking, batch_ms: BatchMs, full_per_s: float, lasts_s: float) -> Calibrated:
    """`full_per_s`: the rate that is 100 %."""
    burst = _timed(stack, asking, np.zeros(_BURST_BATCHES * MAX_BATCH_ROWS), full_per_s)
    loads = []
    for seed, share in enumerate((LIGHT, HEAVY)):
        rate_per_s = share * full_per_s
        due_s = poisson_ms(rate_per_s, round(rate_per_s * lasts_s), seed) / 1e3
        loads.append(_timed(stack, asking, due_s, rate_per_s))
    return calibrated(burst, loads, batch_ms)


def _timed(stack: Stack, asking: Asking, due_s: Milliseconds, most_per_s: float) -> Timed:
    target = Target(stack.server.host, stack.server.port, max(1, round(min(1024.0, most_per_s))))
    report = offer(Order(target, due_s, asking.requests(stack, len(due_s)), _PATIENCE_S))
    return Timed.of(due_s, report.done_s, report.answers)


def calibrated(burst: Timed, loads: Sequence[Timed], batch_ms: BatchMs) -> Calibrated:
    """Each load counts as much as the others, however many answers it has."""
    device_ms = _device_ms(burst, batch_ms)
    most = max(len(load.rows) for load in loads)
    outside_ms = [
        load.latency_ms - load.queue_ms - np.array([batch_ms(rows) + device_ms for rows in load.rows.tolist()])
        for load in loads
    ]
    weights = [np.full(len(load.rows), round(most / len(load.rows)), np.int64) for load in loads]
    rows = np.concatenate([load.rows for load in loads])
    return Calibrated(fit_outside(np.concatenate(outside_ms), rows, np.concatenate(weights)), device_ms)


def _device_ms(burst: Timed, batch_ms: BatchMs) -> float:
    """By how far full batches are apart that follow each other: the median, which no stall moves.

    Where the device is faster than what comes to it, so that none do, or than what passes its answers on, so that
    these are closer together than batches take, by what the batches themselves took.
    """
    order = np.argsort(burst.done_ms, kind="stable")
    done_ms, on_device_ms, rows = burst.done_ms[order], burst.on_device_ms[order], burst.rows[order]
    firsts = np.flatnonzero(np.concatenate([[True], np.diff(on_device_ms) != 0]))
    is_full = rows[firsts] == MAX_BATCH_ROWS
    apart_ms = np.diff(done_ms[firsts])[is_full[1:] & is_full[:-1]][_NOT_COUNTED:]
    if len(apart_ms) >= _LEAST_APART:
        apart_ms_each, took_ms_each = float(np.median(apart_ms)), float(np.median(on_device_ms[firsts][is_full]))
        if apart_ms_each >= _LEAST_OF_TAKEN * took_ms_each:
            return apart_ms_each - batch_ms(MAX_BATCH_ROWS)
    return float(
        np.median([took_ms - batch_ms(size) for took_ms, size in zip(on_device_ms, rows.tolist(), strict=True)])
    )


def _batch_rows(done_ms: Milliseconds, on_device_ms: Milliseconds) -> Rows:
    """(n,) how many answers came one after another with the same times: the rows of each one's batch."""
    order = np.argsort(done_ms, kind="stable")
    is_next = np.any(np.diff(on_device_ms[order], axis=0) != 0, axis=1)
    batch = np.concatenate([[0], np.cumsum(is_next)])
    rows = np.empty(len(done_ms), np.int64)
    rows[order] = np.bincount(batch)[batch]
    return rows
