"""One turn of load on one contender: sent by the generator, every answer checked, CPU counted."""

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import psutil

from tests.bench.hits.asking import Draw, Fault
from tests.bench.hits.contenders import Contender
from tests.bench.load.answer import NotAnAnswer, parse
from tests.bench.load.arrivals import Phase, Seconds, poisson
from tests.bench.load.client import offer
from tests.bench.load.connection import Target
from tests.bench.load.files import Order, Report
from tests.bench.load.summary import Latencies, late_p99_ms

log = logging.getLogger(__name__)

_OPEN_CONNECTIONS = 128
_PATIENCE_S = 5.0
_SHOWN_FAULTS = 3
_IDLE_S, _MAX_WAIT_S = 0.3, 15.0


@dataclass(frozen=True)
class Turn:
    """Of what was measured, after the warm-up; errors, wrong answers and crossovers of all.

    Attributes:
        latency: of good answers, in an open loop from when they were due.
        errors: requests without an answer 200, by code or status.
        wrong: answers 200 that are not the right ones; `crossovers` of those, somebody else's.
        cpu_us, redis_cpu_us: of server and Redis, for each answer.
        late_p99_ms: how late requests were sent; 0 in a closed loop.
        generator_cpu_share: of a core.
    """

    contender: str
    good_per_s: float
    latency: Latencies
    errors: dict[str, int]
    wrong: int
    crossovers: int
    cpu_us: float
    redis_cpu_us: float
    late_p99_ms: float
    generator_cpu_share: float
    answers: int


class Machine:
    """Loads the contenders, one at a time."""

    def __init__(self, draw: Draw, redis_pid: int) -> None:
        self._draw, self._redis_pid = draw, redis_pid

    def closed(self, contender: Contender, connections: int, warm_s: float, measured_s: float, seed: int) -> Turn:
        numbers = self._draw.numbers(contender.draws, seed, contender.is_skewed)
        target = Target("127.0.0.1", contender.port, connections, connections)
        requests = [contender.request(number) for number in numbers]
        ends_s = warm_s + measured_s
        report, cpu = self._offer(contender, Order(target, np.empty(0), requests, _PATIENCE_S, ends_s))
        asked = [numbers[place % len(numbers)] for place in range(len(report.answers))]
        checked = check(contender, asked, report.answers)
        in_time = checked.is_good & (report.done_s >= warm_s) & (report.done_s < ends_s)
        latency = Latencies.of(1e3 * (report.done_s - report.sent_s)[in_time])
        return _turn(contender, report, checked, cpu, latency, measured_s, late_ms=0.0)

    def open(self, contender: Contender, rate_per_s: int, warm_s: float, measured_s: float, seed: int) -> Turn:
        due_s: Seconds = poisson([Phase(rate_per_s, warm_s + measured_s)], seed)
        numbers = self._draw.numbers(len(due_s), seed, contender.is_skewed)
        target = Target("127.0.0.1", contender.port, _OPEN_CONNECTIONS)
        requests = [contender.request(number) for number in numbers]
        report, cpu = self._offer(contender, Order(target, due_s, requests, _PATIENCE_S))
        checked = check(contender, numbers, report.answers)
        latency = Latencies.of(1e3 * (report.done_s - due_s)[checked.is_good & (due_s >= warm_s)])
        late_ms = late_p99_ms(due_s, report.sent_s)
        return _turn(contender, report, checked, cpu, latency, measured_s, late_ms)

    def _offer(self, contender: Contender, order: Order) -> tuple[Report, tuple[float, float]]:
        """The answers, and the CPU seconds that server and Redis used."""
        before = cpu_s(contender.pid), cpu_s(self._redis_pid)
        report = offer(order)
        return report, (cpu_s(contender.pid) - before[0], cpu_s(self._redis_pid) - before[1])


class Checked(NamedTuple):
    """`is_good` by request; faults of answers 200."""

    is_good: npt.NDArray[np.bool_]
    errors: dict[str, int]
    faults: list[Fault]


def check(contender: Contender, numbers: Sequence[int], answers: Sequence[bytes]) -> Checked:
    """`answers` as they came, empty where there was none."""
    is_good = np.zeros(len(answers), dtype=np.bool_)
    errors, faults = Counter[str](), list[Fault]()
    for place, (number, raw) in enumerate(zip(numbers, answers, strict=True)):
        try:
            status, _, body = parse(raw)
        except NotAnAnswer:
            errors["no_answer"] += 1
            continue
        if status != 200:
            errors[_code(status, body)] += 1
        elif fault := contender.check(number, body):
            faults.append(fault)
        else:
            is_good[place] = True
    for fault in faults[:_SHOWN_FAULTS]:
        log.error("%s: WRONG ANSWER: %s", contender.name, fault.said)
    if errors:
        log.error("%s: ERRORS: %s", contender.name, dict(errors))
    return Checked(is_good, dict(errors), faults)


def cpu_s(pid: int) -> float:
    """Of a process and its children, user and system."""
    process = psutil.Process(pid)
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def wait_idle(contender: Contender) -> None:
    """Until it uses less than a tenth of a core, for a while at most."""
    until_s = time.monotonic() + _MAX_WAIT_S
    used_s = _IDLE_S
    while used_s > _IDLE_S / 10 and time.monotonic() < until_s:
        before_s = cpu_s(contender.pid)
        time.sleep(_IDLE_S)
        used_s = cpu_s(contender.pid) - before_s


def _turn(
    contender: Contender,
    report: Report,
    checked: Checked,
    cpu: tuple[float, float],
    latency: Latencies,
    measured_s: float,
    late_ms: float,
) -> Turn:
    answered = sum(map(bool, report.answers)) or 1
    return Turn(
        contender=contender.name,
        good_per_s=latency.count / measured_s,
        latency=latency,
        errors=checked.errors,
        wrong=len(checked.faults),
        crossovers=sum(fault.is_crossover for fault in checked.faults),
        cpu_us=1e6 * cpu[0] / answered,
        redis_cpu_us=1e6 * cpu[1] / answered,
        late_p99_ms=late_ms,
        generator_cpu_share=report.cpu_share,
        answers=len(report.answers),
    )


def _code(status: int, body: bytes) -> str:
    try:
        return str(orjson.loads(body)["code"])
    except (ValueError, KeyError, TypeError):
        return str(status)
