"""Look-ups that go on while something else happens, each of them checked."""

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import httpx

_PAUSE_S = 0.004
_UNAVAILABLE = 503
_HIT = "precomputed"
_DEGRADED = ("stale", "default")


class SteadyLookups:
    """Use as `with`: asks for one entity after the other by GET, in a thread of its own.

    Attributes:
        allowed: what `minutes` may be; a request that saw it change may have either.
        answers: how many came, good or not.
        hits: how many of them came from a generation.
        lost: how many were refused or degraded while `losing`, when they may be.
        wrong: answers that were not allowed, in words.
    """

    def __init__(self, base: str, model: str, entities: Sequence[str], allowed: Collection[float]) -> None:
        self.allowed = frozenset(allowed)
        self.answers = self.hits = self.lost = 0
        self.wrong: list[str] = []
        self._may_be_lost = False
        self._client = httpx.Client(base_url=f"{base}/v1/models/{model}/predictions", timeout=10)
        self._entities = entities
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="look-ups")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    @contextmanager
    def losing(self) -> Iterator[None]:
        """Meanwhile an answer may be refused or degraded, and says so; one that is given must be right as ever.

        At the end, waits until they all are good again.
        """
        self._may_be_lost = True
        yield
        good, until_s = 0, time.monotonic() + 20
        while good < len(self._entities) // 10:
            answer = self._ask(self._entities[good * 10])
            good = good + 1 if answer.status_code == 200 and answer.json()["source"] == _HIT else 0
            assert time.monotonic() < until_s, f"no good answers again: {answer.text}; {self.wrong[:3]}"
        self._may_be_lost = False

    def wait_for_more(self, count: int, timeout_s: float = 10.0) -> None:
        """Returns when so many more were answered."""
        wanted, until_s = self.answers + count, time.monotonic() + timeout_s
        while self.answers < wanted:
            assert time.monotonic() < until_s, f"{self.answers} of {wanted} answers; {self.wrong[:3]}"
            time.sleep(_PAUSE_S)

    def settle(self, value: float, timeout_s: float = 5.0) -> None:
        """Waits until this is what is answered, and allows nothing else from then on."""
        until_s = time.monotonic() + timeout_s
        while self._minutes(self._ask(self._entities[0])) != value:
            assert time.monotonic() < until_s, f"never {value}"
            time.sleep(_PAUSE_S)
        self.allowed = frozenset({value})

    def _run(self) -> None:
        place = 0
        while not self._stop.is_set():
            before, could_be_lost = self.allowed, self._may_be_lost
            entity = self._entities[place % len(self._entities)]
            try:
                answer = self._ask(entity)
            except httpx.TransportError as error:
                self.wrong.append(f"{entity}: {error!r}")
            else:
                self._check(entity, answer, before | self.allowed, could_be_lost or self._may_be_lost)
            self.answers += 1
            place += 7
            self._stop.wait(_PAUSE_S)

    def _check(self, entity: str, answer: httpx.Response, allowed: frozenset[float], may_be_lost: bool) -> None:
        said: dict[str, Any] = answer.json() if answer.status_code == 200 else {}
        is_degraded = answer.status_code == _UNAVAILABLE or said.get("source") in _DEGRADED
        if may_be_lost and is_degraded:
            self.lost += 1
        elif said.get("entity") != entity or self._minutes(answer) not in allowed:
            text = f"{answer.status_code} {answer.text[:300]}"
            self.wrong.append(f"{entity}: {text}, expected one of {sorted(allowed)}")
        elif said["source"] == _HIT:
            self.hits += 1

    def _ask(self, entity: str) -> httpx.Response:
        return self._client.get(f"/{entity}")

    @staticmethod
    def _minutes(answer: httpx.Response) -> float | None:
        return float(answer.json()["outputs"]["minutes"]) if answer.status_code == 200 else None
