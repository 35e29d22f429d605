"""Look-ups at a steady rate through the API, with and without a load of another generation going on."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isclose
from pathlib import Path

import httpx
import numpy as np
import orjson

from tests.bench.known import features_of, outputs_of
from tests.bench.load.answer import NotAnAnswer, parse
from tests.bench.load.arrivals import Phase, poisson
from tests.bench.load.client import offer
from tests.bench.load.connection import Target
from tests.bench.load.files import Order, Report
from tests.bench.load.summary import Latencies, late_p99_ms
from tests.bench.loading.plan import RATE_PER_S, Plan
from tests.bench.scoring.night import Begun, entity_of, publish
from tests.support.api_process import ApiProcess, wait_for

log = logging.getLogger(__name__)

_CONNECTIONS = 128
_PATIENCE_S = 5.0
_SHOWN_WRONG = 3
_SETTLE_S = 1.0
# So that a stall of the machine is measured as latency, not cut off as a miss.
_LOOKUP_BUDGET_MS = "1000"


@dataclass(frozen=True)
class Watched:
    """Of what was due after the warm-up; errors and wrong answers of all.

    Attributes:
        load_share: of the time that was watched, how much a load went on; `loaded` entities in all.
    """

    latency: Latencies
    errors: int
    wrong: int
    late_p99_ms: float
    load_share: float = 0.0
    loaded: int = 0


class Lookups:
    """Asks one API of one live generation."""

    def __init__(self, api: ApiProcess, model: str, live: Begun, plan: Plan) -> None:
        self._api, self._live, self._plan = api, live, plan
        self._path = f"/v1/models/{model}/predictions/"

    def wait_right(self) -> None:
        def is_right() -> bool:
            answer = self._api.client.get(f"{self._path}{entity_of(0)}")
            return answer.status_code == httpx.codes.OK and not self._fault(0, answer.content)

        wait_for(is_right, 30.0, f"a right answer; the log ends: {self._api.log_tail()}")

    def watch(self, seed: int) -> Watched:
        return self._watched(self._offer(seed)[0], seed)

    def watch_during(self, other: Begun, seed: int) -> Watched:
        """While the other generation is published, again and again, until all look-ups are done."""
        said: list[tuple[Report, float]] = []
        # Spark's session is of this thread.
        asking = threading.Thread(target=lambda: said.append(self._offer(seed)))
        asking.start()
        spans = []
        while asking.is_alive():
            other.forget("publish")
            began_s = time.perf_counter()
            publish(other)
            spans.append((began_s, time.perf_counter()))
        asking.join()
        report, ended_s = said[0]
        watched = self._watched(report, seed)
        since_s = ended_s - self._plan.measured_s
        inside_s = sum(max(0.0, min(end_s, ended_s) - max(began_s, since_s)) for began_s, end_s in spans)
        share = inside_s / self._plan.measured_s
        return replace(watched, load_share=share, loaded=len(spans) * other.rows)

    def _offer(self, seed: int) -> tuple[Report, float]:
        """What came back, and when it had."""
        due_s = self._due_s(seed)
        head = "HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        requests = [f"GET {self._path}{entity_of(one)} {head}".encode() for one in self._numbers(seed, len(due_s))]
        report = offer(Order(Target("127.0.0.1", self._api.port, _CONNECTIONS), due_s, requests, _PATIENCE_S))
        return report, time.perf_counter()

    def _due_s(self, seed: int) -> np.ndarray:
        return poisson([Phase(RATE_PER_S, self._plan.warm_s + self._plan.measured_s)], seed)

    def _numbers(self, seed: int, count: int) -> list[int]:
        drawn: list[int] = np.random.default_rng(seed).integers(0, self._live.rows, size=count).tolist()
        return drawn

    def _watched(self, report: Report, seed: int) -> Watched:
        due_s = self._due_s(seed)
        is_good = np.zeros(len(due_s), dtype=np.bool_)
        errors, wrong = 0, list[str]()
        for place, number in enumerate(self._numbers(seed, len(due_s))):
            try:
                status, _, body = parse(report.answers[place])
            except NotAnAnswer:
                errors += 1
                continue
            if status != httpx.codes.OK:
                errors += 1
            elif fault := self._fault(number, body):
                wrong.append(fault)
            else:
                is_good[place] = True
        for fault in wrong[:_SHOWN_WRONG]:
            log.error("WRONG ANSWER: %s", fault)
        is_measured = is_good & (due_s >= self._plan.warm_s)
        latency = Latencies.of(1e3 * (report.done_s - due_s)[is_measured])
        return Watched(latency, errors, len(wrong), late_p99_ms(due_s, report.sent_s))

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
def serving(folder: Path, redis_url: str, model: str, live: Begun, plan: Plan) -> Iterator[Lookups]:
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
        lookups = Lookups(api, model, live, plan)
        lookups.wait_right()
        yield lookups


def measure_lookups(lookups: Lookups, other: Begun, plan: Plan, seed: int) -> list[tuple[Watched, Watched]]:
    """Before and during, in each round on the same arrivals and entities."""
    found = []
    for again in range(plan.lookup_rounds):
        time.sleep(_SETTLE_S)
        before = lookups.watch(seed + again)
        during = lookups.watch_during(other, seed + again)
        log.info("look-ups: p99 %.2f ms before, %.2f during", before.latency.p99_ms, during.latency.p99_ms)
        found.append((before, during))
    return found
