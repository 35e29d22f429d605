"""What Redis says now: the routes document and the replicas' measured T(b). Reads only; says so when it cannot."""

import logging
from dataclasses import dataclass
from typing import Any, Self

from pydantic import ValidationError
from redis import Redis, RedisCluster

from online.monitor.fleet import MeasuredReplica
from online.redis_client import ERRORS, connect, now_ms
from schemas.history import Change, read_history
from schemas.keys import REPLICAS_KEY, history_key, routes_key
from schemas.replicas import Replica, ServedVersion
from schemas.routes import MAX_HISTORY, RoutesDocument

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LiveState:
    """Times are of Redis's clock. `problem` says what could not be read; `unreadable` counts bad node entries."""

    now_ms: int | None = None
    routes: RoutesDocument | None = None
    replicas: tuple[MeasuredReplica, ...] = ()
    nodes: int = 0
    unreadable: int = 0
    problem: str | None = None


class LiveStateReader:
    """Connects when it is first asked; close it when done."""

    def __init__(self, redis_url: str, timeout_s: float) -> None:
        self._url, self._timeout_s = redis_url, timeout_s
        self._redis: Redis | RedisCluster | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._redis is not None:
            self._redis.close()

    def read(self, model: str) -> LiveState:
        """Never raises for Redis or for what it holds."""
        try:
            redis = self._redis = self._redis or connect(self._url, self._timeout_s)
            at_ms = now_ms(redis)
            document: Any = redis.get(routes_key(model))
            nodes: Any = redis.hgetall(REPLICAS_KEY)
        except ERRORS as error:
            logger.warning("redis cannot be read", extra={"error": type(error).__name__})
            return LiveState(problem=f"Redis cannot be read ({type(error).__name__})")
        routes, problem = _routes(document)
        replicas, unreadable = _replicas(model, nodes)
        return LiveState(at_ms, routes, tuple(replicas), len(nodes), unreadable, problem)

    def history(self, model: str) -> tuple[list[Change], str | None]:
        """Who changed what is live, newest first, and in words why it cannot be read."""
        try:
            redis = self._redis = self._redis or connect(self._url, self._timeout_s)
            lines: Any = redis.lrange(history_key(model), 0, MAX_HISTORY - 1)
        except ERRORS as error:
            logger.warning("the history cannot be read", extra={"error": type(error).__name__})
            return [], f"The history of changes cannot be read ({type(error).__name__})"
        return read_history(lines), None


def _routes(document: bytes | None) -> tuple[RoutesDocument | None, str | None]:
    if document is None:
        return None, None
    try:
        return RoutesDocument.model_validate_json(document), None
    except ValidationError as error:
        logger.warning("the routes document cannot be read", exc_info=True)
        return None, f"the routes document cannot be read ({error.error_count()} errors; the log names them)"


def _replicas(model: str, nodes: dict[bytes, bytes]) -> tuple[list[MeasuredReplica], int]:
    """Measured versions of the model on all nodes, and how many entries could not be read."""
    found, unreadable = [], 0
    for name, value in nodes.items():
        try:
            node = Replica.model_validate_json(value)
        except ValidationError:
            unreadable += 1
            continue
        for entry in node.versions:
            if entry.model == model and (measured := _measured(name, entry, node.at_ms)) is not None:
                found.append(measured)
    return found, unreadable


def _measured(name: bytes, entry: ServedVersion, at_ms: int) -> MeasuredReplica | None:
    if entry.version is None or (known := entry.batch_time) is None:
        return None
    return MeasuredReplica(name.decode("utf-8", "replace"), entry.version, *known, at_ms, entry.device)
