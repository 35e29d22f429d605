"""The product's publish and verify steps beside the pipe, in turns, on one server that is emptied before each."""

import logging
import time
from dataclasses import dataclass
from pathlib import Path

from redis import Redis

from tests.bench.loading.nights import pairs
from tests.bench.loading.pipe import pipe_s, write_commands
from tests.bench.scoring.night import Begun, StepFailed, publish, verify
from tests.support.redis_server import RedisServer

log = logging.getLogger(__name__)

_SETTLE_S = 0.3  # the server's buffers are freed


@dataclass(frozen=True)
class LoadRound:
    """Seconds of each. `grown_bytes`: of the server's memory, by what was loaded."""

    entities: int
    pipe_s: float
    publish_s: float
    verify_s: float
    grown_bytes: int

    @property
    def entities_per_s(self) -> float:
        return self.entities / (self.publish_s + self.verify_s)

    @property
    def keys_per_s(self) -> float:
        return self.entities / self.pipe_s

    @property
    def over_pipe(self) -> float:
        return self.entities_per_s / self.keys_per_s


def measure_load(folder: Path, server: RedisServer, begun: Begun, rounds: int) -> list[LoadRound]:
    """Raises StepFailed where a load is not verified, and PipeFailed."""
    commands = folder / "commands"
    count = write_commands(commands, pairs(begun))
    found = []
    with Redis.from_url(server.url) as redis:
        for _ in range(rounds):
            redis.execute_command("FLUSHALL", "SYNC")
            piped_s = pipe_s(commands, server.port, count)
            redis.execute_command("FLUSHALL", "SYNC")
            found.append(_load(redis, begun, piped_s))
            log.info(
                "pipe %.0f keys/s; publish %.1f s, verify %.1f s, %.0f entities/s",
                *(found[-1].keys_per_s, found[-1].publish_s, found[-1].verify_s, found[-1].entities_per_s),
            )
    commands.unlink()
    return found


def load(begun: Begun) -> tuple[float, float]:
    """Seconds of publish and verify. Raises StepFailed where what is loaded is not verified whole."""
    begun.forget("publish", "verify")
    began_s = time.perf_counter()
    publish(begun)
    published_s = time.perf_counter()
    verify(begun)
    verified_s = time.perf_counter()
    if (rows := begun.report("verify")["rows"]) != begun.rows:
        raise StepFailed(f"{rows} of {begun.rows} entities were verified")
    return published_s - began_s, verified_s - published_s


def _load(redis: "Redis[bytes]", begun: Begun, piped_s: float) -> LoadRound:
    time.sleep(_SETTLE_S)
    before = _used_memory(redis)
    publish_s, verify_s = load(begun)
    time.sleep(_SETTLE_S)
    return LoadRound(begun.rows, piped_s, publish_s, verify_s, _used_memory(redis) - before)


def _used_memory(redis: "Redis[bytes]") -> int:
    return int(redis.info("memory")["used_memory"])
