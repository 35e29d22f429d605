"""Replays look-ups against the endpoint as a client would: open loop, each at its time, retrying as it is told.

Latency counts from the scheduled moment, so a slow answer cannot hide the ones queued behind it. An answer of 503
is retried after its Retry-After, a broken connection after a short pause; every look-up ends answered, or is
counted as an error once its patience is spent.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from urllib.parse import quote

import orjson

from infra.demo.http_client import HttpClient, Response

RECONNECT_PAUSE_S = 0.1
MAX_RETRY_AFTER_S = 5.0


@dataclass(frozen=True, slots=True)
class Lookup:
    """One look-up: when, in seconds since the replay began, and for which entity."""

    at_s: float
    entity: str


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back for the look-up at `index`. `answer` is the endpoint's JSON, or its last problem."""

    index: int
    status: int
    latency_ms: float
    attempts: int
    answer: dict[str, object]

    @property
    def source(self) -> str:
        return str(self.answer.get("source", "error"))


@dataclass(slots=True)
class ReplayResult:
    answered: list[Answered] = field(default_factory=list)
    retries: Counter[str] = field(default_factory=Counter)

    @property
    def errors(self) -> int:
        """Look-ups that never got a prediction."""
        return sum(one.status != 200 for one in self.answered)


class Replay:
    """One run over a list of look-ups."""

    def __init__(self, host: str, port: int, model: str, patience_s: float = 60.0) -> None:
        self._host, self._port, self._patience_s = host, port, patience_s
        self._path = f"/v1/models/{model}/predictions/"
        self._jitter = random.Random(20131111)

    async def run(
        self, lookups: Sequence[Lookup], on_progress: Callable[[int], None] = lambda done: None
    ) -> ReplayResult:
        """Sends each look-up at its time and waits for all of them. `on_progress` gets how many are answered."""
        result = ReplayResult()
        started = perf_counter()
        async with HttpClient(self._host, self._port) as client, asyncio.TaskGroup() as tasks:
            for index, lookup in enumerate(lookups):
                if (wait_s := started + lookup.at_s - perf_counter()) > 0:
                    await asyncio.sleep(wait_s)
                # The time it was due, not the time the loop came round to it.
                tasks.create_task(self._one(client, index, lookup, started + lookup.at_s, result))
                if index % 50 == 0:
                    on_progress(len(result.answered))
        on_progress(len(result.answered))
        return result

    async def _one(self, client: HttpClient, index: int, lookup: Lookup, due: float, result: ReplayResult) -> None:
        path = self._path + quote(lookup.entity, safe="")
        attempts = 0
        while True:
            attempts += 1
            pause_s: float | None = RECONNECT_PAUSE_S
            try:
                response = await client.request("GET", path)
                pause_s, why = _retry_after_s(response), str(response.status)
            except OSError as error:  # TimeoutError is one
                response, why = Response(), type(error).__name__
            elapsed_s = perf_counter() - due
            if pause_s is None or elapsed_s + pause_s > self._patience_s:
                answer = orjson.loads(response.body) if response.body else {"code": why}
                result.answered.append(Answered(index, response.status, 1e3 * elapsed_s, attempts, answer))
                return
            result.retries[why] += 1
            await asyncio.sleep(pause_s * (1 + 0.5 * self._jitter.random()))


def _retry_after_s(response: Response) -> float | None:
    """How long to wait before asking again, or None where the answer is final."""
    if response.status not in (429, 503):
        return None
    try:
        return min(MAX_RETRY_AFTER_S, float(response.headers.get("retry-after", "1")))
    except ValueError:
        return 1.0
