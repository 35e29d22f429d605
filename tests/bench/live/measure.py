"""One run of load against one server: sent by the generator, checked, and put in order by request."""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import orjson

from schemas.capacity import BatchTime
from tests.bench.ideal import ideal_latencies_ms
from tests.bench.known import ALPHA_MS, MAX_BATCH_ROWS, TAU0_MS
from tests.bench.live.asking import Requests, Server, request_bytes, wrong_answers
from tests.bench.load.answer import Answer, NotAnAnswer, parse
from tests.bench.load.arrivals import Phase, Seconds, poisson
from tests.bench.load.client import offer
from tests.bench.load.files import Order, Report
from tests.bench.load.generator import Target
from tests.bench.load.summary import Latencies, Milliseconds, late_p99_ms

log = logging.getLogger(__name__)

DEVICE = BatchTime(TAU0_MS, ALPHA_MS)
_NO_ANSWER = 0
_SHOWN_WRONG = 5


@dataclass(frozen=True)
class Run:
    """By request, in order of arrival.

    Attributes:
        due_s: from the start of the load.
        latency_ms: from then to the answer, whatever its status; inf where there was none.
        status: 0 where there was no answer.
        code: of a problem document, else empty.
        wrong: answers with status 200 that were not right.
    """

    due_s: Seconds
    latency_ms: Milliseconds
    status: npt.NDArray[np.int64]
    code: list[str]
    wrong: int
    late_p99_ms: float
    generator_cpu_share: float

    def latencies(self, since_s: float = 0.0) -> Latencies:
        """Of good answers to what was due from `since_s` on."""
        return Latencies.of(self.latency_ms[(self.status == 200) & (self.due_s >= since_s)])

    def ideal(self, since_s: float = 0.0) -> Latencies:
        """What the device without any overhead gives for the very same arrivals."""
        ideal_ms = ideal_latencies_ms(self.due_s, DEVICE, MAX_BATCH_ROWS)
        return Latencies.of(ideal_ms[self.due_s >= since_s])

    def errors(self, since_s: float = 0.0) -> dict[str, int]:
        """How many got no good answer, by code or status."""
        places = np.flatnonzero((self.status != 200) & (self.due_s >= since_s))
        return dict(Counter(self.code[place] or str(self.status[place]) for place in places))


def run_load(
    server: Server,
    requests: Requests,
    phases: list[Phase],
    seed: int,
    *,
    headers: Mapping[str, str] = {},
    patience_s: float = 10.0,
) -> Run:
    most_per_s = max(phase.rate_per_s for phase in phases)
    return run_at(server, requests, poisson(phases, seed), most_per_s, headers=headers, patience_s=patience_s)


def run_at(
    server: Server,
    requests: Requests,
    due_s: Seconds,
    most_per_s: float,
    *,
    headers: Mapping[str, str] = {},
    patience_s: float = 10.0,
) -> Run:
    """Load at times that are known; `most_per_s` bounds the connections."""
    numbers = requests.take(len(due_s))
    # What one second brings is far more than is ever in flight, unless the server has fallen behind.
    connections = max(1, round(min(1024, most_per_s)))
    raw = [request_bytes(server, number, headers) for number in numbers]
    report = offer(Order(Target(server.host, server.port, connections), due_s, raw, patience_s))
    return _checked(due_s, numbers, report)


def _checked(due_s: Seconds, numbers: list[int], report: Report) -> Run:
    answers = [_parsed(raw) for raw in report.answers]
    wrong = wrong_answers(numbers, answers)
    for line in wrong[:_SHOWN_WRONG]:
        log.error("wrong answer: %s", line)
    status = np.array([_NO_ANSWER if answer is None else answer.status for answer in answers], dtype=np.int64)
    return Run(
        due_s,
        1e3 * (report.done_s - due_s),
        status,
        [_code(answer) for answer in answers],
        len(wrong),
        late_p99_ms(due_s, report.sent_s),
        report.cpu_share,
    )


def _parsed(raw: bytes) -> Answer | None:
    try:
        return parse(raw) if raw else None
    except NotAnAnswer:
        return None


def _code(answer: Answer | None) -> str:
    if answer is None:
        return "no_answer"
    if answer.status == 200:
        return ""
    try:
        return str(orjson.loads(answer.body)["code"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ""
