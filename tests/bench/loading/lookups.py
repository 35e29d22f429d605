"""Look-ups at a steady rate through the API of one live generation; every answer is checked."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isclose
from pathlib import Path

import httpx
import numpy as np
import numpy.typing as npt
import orjson

from tests.bench.known import features_of, outputs_of
from tests.bench.load.answer import NotAnAnswer, parse
from tests.bench.load.arrivals import Phase, Seconds, poisson
from tests.bench.load.client import offer
from tests.bench.load.connection import Target
from tests.bench.load.files import Order, Report
from tests.bench.load.summary import late_p99_ms
from tests.bench.loading.plan import RATE_PER_S
from tests.bench.scoring.night import Begun, entity_of
from tests.support.api_process import ApiProcess, wait_for

log = logging.getLogger(__name__)

_CONNECTIONS = 128
_PATIENCE_S = 5.0
_SHOWN_WRONG = 3
# So that a stall of the machine is measured as latency, not cut off as a miss.
_LOOKUP_BUDGET_MS = "1000"


@dataclass(frozen=True)
class Asked:
    """What was asked, by request.

    Attributes:
        due_s: (n,) by `time.perf_counter`, ascending.
        latency_ms: (n,) since then; NaN for an error or a wrong answer.
        late_p99_ms: how late they were sent.
    """

    due_s: Seconds
    latency_ms: npt.NDArray[np.float64]
    errors: int
    wrong: int
    late_p99_ms: float


class Lookups:
    """Asks one API of one live generation."""

    def __init__(self, api: ApiProcess, model: str, live: Begun) -> None:
        self._api, self._live = api, live
        self._path = f"/v1/models/{model}/predictions/"

    def wait_right(self) -> None:
        def is_right() -> bool:
            answer = self._api.client.get(f"{self._path}{entity_of(0)}")
            return answer.status_code == httpx.codes.OK and not self._fault(0, answer.content)

        wait_for(is_right, 30.0, f"a right answer; the log ends: {self._api.log_tail()}")

    def ask(self, duration_s: float, seed: int) -> Asked:
        """Returns when all are answered, or were given up."""
        due_s = poisson([Phase(RATE_PER_S, duration_s)], seed)
        numbers: list[int] = np.random.default_rng(seed).integers(0, self._live.rows, size=len(due_s)).tolist()
        head = "HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        requests = [f"GET {self._path}{entity_of(one)} {head}".encode() for one in numbers]
        report = offer(Order(Target("127.0.0.1", self._api.port, _CONNECTIONS), due_s, requests, _PATIENCE_S))
        return self._checked(report, due_s, numbers)

    def _checked(self, report: Report, due_s: Seconds, numbers: list[int]) -> Asked:
        latency_ms = 1e3 * (report.done_s - due_s)
        errors, wrong = 0, list[str]()
        for place, number in enumerate(numbers):
            try:
                status, _, body = parse(report.answers[place])
            except NotAnAnswer:
                status, body = 0, b""
            fault = self._fault(number, body) if status == httpx.codes.OK else ""
            errors += status != httpx.codes.OK
            wrong += [fault] if fault else []
            if fault or status != httpx.codes.OK:
                latency_ms[place] = np.nan
        for fault in wrong[:_SHOWN_WRONG]:
            log.error("WRONG ANSWER: %s", fault)
        late_ms = late_p99_ms(due_s, report.sent_s)
        return Asked(report.began_s + due_s, latency_ms, errors, len(wrong), late_ms)

    def _fault(self, number: int, body: bytes) -> str:
        """What is wrong with an answer of status 200, in words; empty where nothing is."""
        document = orjson.loads(body)
        said = document["entity"], document["generation"], document["source"]
        if said != (entity_of(number), self._live.generation, "precomputed"):
            return f"asked for {entity_of(number)}, told of {said}"
        for name, value in outputs_of(features_of(number)).items():
            if not isclose(document["outputs"][name], value, rel_tol=1e-6, abs_tol=1e-4):
                return f"{entity_of(number)}: {name} is {document['outputs'][name]}, not {value}"
        return ""


@contextmanager
def serving(folder: Path, redis_url: str, model: str, live: Begun) -> Iterator[Lookups]:
    """An API that answers from the live generation, without L1: every look-up goes to the server under load."""
    own = folder / "api"
    own.mkdir()
    api = ApiProcess(
        own,
        redis_url=redis_url,
        models=[model],
        allowed_bundle_urls=[str(folder)],
        lookup_budget_ms=_LOOKUP_BUDGET_MS,
        l1_bytes="0",
    )
    with api:
        lookups = Lookups(api, model, live)
        lookups.wait_right()
        yield lookups
