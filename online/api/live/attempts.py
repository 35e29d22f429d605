"""One request on its way to replicas: tried once more where the first certainly has not executed it."""

import logging
from collections.abc import Sequence
from typing import Protocol

from online.api.live.contract import Answered
from online.errors import DeadlineExceeded, LiveUnavailable, ModelError, Overloaded, ServingError
from online.wire_client.asking import ReplicaGone, ReplicaRefused, Rows, Sent
from online.wire_client.replica import Replica
from schemas import wire
from schemas.http import ProblemCode

log = logging.getLogger(__name__)

_ATTEMPTS = 2
# What a worker answers with before it has executed anything.
_NOT_EXECUTED = (ProblemCode.NOT_READY, ProblemCode.OVERLOADED)


class Pool(Protocol):
    """The replicas there are. `failovers` counts second attempts."""

    failovers: int

    def least_loaded(self, digest: str, tried: Sequence[Replica]) -> Replica | None:
        """Whom to ask next, of those that may be asked and were not."""

    def now_s(self) -> float:
        """By the clock of deadlines."""


class Attempts:
    """Rows on their way over one replica or two; a `Sink` of each."""

    __slots__ = ("_answered", "_digest", "_pool", "_rows", "_sent", "_tried")

    def __init__(self, pool: Pool, answered: Answered, digest: str, rows: Rows) -> None:
        self._pool, self._answered, self._digest, self._rows = pool, answered, digest, rows
        self._tried: list[Replica] = []
        self._sent: Sent | None = None

    def start(self) -> None:
        self._try_next(LiveUnavailable("no replica has this version warm"))

    def cancel(self) -> None:
        if self._sent is not None:
            self._tried[-1].cancel(self._sent)

    def on_result(self, result: wire.Result) -> None:
        self._answered.on_result(result)

    def on_failure(self, failed: ReplicaGone | ReplicaRefused | TimeoutError) -> None:
        self._sent = None
        if isinstance(failed, ReplicaGone):
            lost = LiveUnavailable("the replica was lost while it worked on this")
            (self._answered.on_failure if failed.may_have_executed else self._try_next)(lost)
        elif isinstance(failed, ReplicaRefused):
            is_executed = failed.failure.code not in _NOT_EXECUTED
            (self._answered.on_failure if is_executed else self._try_next)(_refusal(failed.failure))
        else:
            self._answered.on_failure(DeadlineExceeded("the deadline passed before the model answered"))

    def _try_next(self, error: ServingError) -> None:
        """`error`: what it is where there is nobody left to ask, or no time."""
        pool, tried = self._pool, self._tried
        replica = pool.least_loaded(self._digest, tried) if len(tried) < _ATTEMPTS else None
        if replica is None or (tried and pool.now_s() >= self._rows.deadline_s):
            self._answered.on_failure(error)
            return
        pool.failovers += bool(tried)
        tried.append(replica)
        try:
            self._sent = replica.send(self, self._rows)
        except (ReplicaGone, TimeoutError) as failed:
            self.on_failure(failed)


def _refusal(failure: wire.Failure) -> ServingError:
    retry_after_s = failure.retry_after_ms / 1000 if failure.retry_after_ms else None
    if failure.code == ProblemCode.OVERLOADED:
        return Overloaded("the replicas are over capacity", retry_after_s=retry_after_s)
    if failure.code == ProblemCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded("the deadline passed before the model answered")
    if failure.code in (ProblemCode.NOT_READY, ProblemCode.LIVE_UNAVAILABLE):
        return LiveUnavailable("the replica is going away", retry_after_s=retry_after_s)
    log.error("the model failed", extra={"code": failure.code, "reason": failure.message})
    return ModelError("the model could not compute this")
