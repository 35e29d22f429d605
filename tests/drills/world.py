"""What drills happen to: a server, an API over it, nights that follow each other, and look-ups that never stop.

No model and no Spark are behind the nights: their scores are made here, each night's answers being its number.
All else is the product's: `begin`, the steps, the API.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from io import StringIO
from itertools import chain, count
from pathlib import Path

import numpy as np
import pytest
from redis import Redis

from batch_scoring.publishing.__main__ import main as publishing_main
from batch_scoring.publishing.document import read_document
from batch_scoring.runs import Run
from schemas.keys import bucket_key, field_of, generation_manifest_key
from schemas.manifest import REQUIRED_FILES
from schemas.routes import RoutesDocument
from tests.drills.jobs import Job, step
from tests.support.api_process import ApiProcess, wait_for
from tests.support.publish_small import Small, small_manifest
from tests.support.redis_server import RedisServer
from tests.support.released import Released
from tests.support.scored import write_scores
from tests.support.steady_lookups import SteadyLookups

MODEL = "delay"
ENTITIES = [f"UA{i}" for i in range(900)]
STEPS = ("publish", "verify", "gate", "activate", "retire")
# As in production: what Redis acknowledged in the last second may be lost with its machine.
PERSISTENT = ("--appendonly", "yes", "--appendfsync", "everysec")
_FIRST_DAY = datetime(2025, 1, 1, 2, tzinfo=UTC)
_PARTS = 3


class World:
    """Nights of `MODEL`; use `running_world`.

    Attributes:
        number: of the newest night that is live, which all answers say as their `minutes`.
        environment: of the steps.
    """

    def __init__(self, folder: Path, server: RedisServer, redis: "Redis[bytes]", environment: Mapping[str, str]):
        self.folder, self.server, self.redis = folder, server, redis
        self.environment = dict(environment)
        self.made = _Made(folder, server.url, redis, ENTITIES)
        self.lookups: SteadyLookups
        self.number: float = 0
        self._numbers, self._logs = count(1), count(1)

    def next_number(self) -> int:
        return next(self._numbers)

    def begin(self, number: float, run_key: str | None = None, version: str = "1", day: int | None = None) -> Run:
        """The run of that night; the same key finds the same run again, under a new token."""
        as_of = _FIRST_DAY + timedelta(days=number if day is None else day)
        words = self.words_of_begin(as_of, run_key or f"night {number}", version)
        with redirect_stdout(StringIO()) as out:
            assert publishing_main(words) == 0
        return Run.load(json.loads(out.getvalue().splitlines()[-1])["runs"][0]["run"])

    def words_of_begin(self, as_of: datetime, run_key: str, version: str) -> list[str]:
        """With the bundle of that version."""
        bundle = self.made.small(version).url
        given = {"--model": MODEL, "--as-of": as_of.isoformat(), "--run-key": run_key, "--bundle": bundle}
        return ["begin", *chain.from_iterable(given.items())]

    def scored(self, number: float, run_key: str | None = None, version: str = "1", day: int | None = None) -> Run:
        """As `begin`; what Spark's steps would leave of it is there."""
        run = self.begin(number, run_key, version, day)
        self.features(run)
        self.score(run, number)
        return run

    def features(self, run: Run) -> None:
        """What the features step leaves, in Redis too."""
        self.made._features(run)

    def score(self, run: Run, number: float) -> None:
        """What the score step leaves."""
        outputs = np.tile(np.array([[0.25, number]], np.float32), (len(ENTITIES), 1))
        write_scores(run, ENTITIES, outputs, _PARTS)

    def night(self) -> tuple[Run, int]:
        """The next, scored, and its number."""
        number = self.next_number()
        return self.scored(number), number

    def document(self) -> RoutesDocument | None:
        return read_document(self.redis, MODEL)

    def live(self) -> str | None:
        return self.made.live()[1]

    def step(self, name: str, run: Run) -> int:
        """In this process; the exit status."""
        return step(name, run)

    def steps(self, run: Run, *names: str) -> None:
        """Each of these must be done."""
        for name in names:
            assert self.step(name, run) == 0, name

    def apart(self, steps: str | Sequence[str], run: Run, fail_point: str = "") -> Job:
        """In a process of its own."""
        names = (steps,) if isinstance(steps, str) else steps
        environment = {**self.environment, "BATCH_FAIL_POINT": fail_point}
        return Job(names, run, environment, self.folder / f"job-{next(self._logs)}.log")

    @contextmanager
    def held(self, name: str, run: Run, point: str, folder: Path) -> Iterator[Job]:
        """The step, waiting at that point; where the block ends it goes on to its end."""
        mark = folder / point
        with self.apart(name, run, f"{point}:hold:{folder}") as job:
            wait_for(lambda: mark.exists() or not job.is_running, 30, f"{point}: {job.said}")
            assert mark.exists(), job.said
            yield job
            Path(folder, f"{point}.go").touch()
            job.wait()

    def old_or_new(self, number: float) -> None:
        """From now on the switch may come."""
        self.lookups.allowed = frozenset({self.number, number})

    def complete(self, run: Run, number: float, since: str = "publish") -> None:
        """Runs the steps again, which must complete."""
        for name in STEPS[STEPS.index(since) :]:
            if name == "activate":
                self.old_or_new(number)
            assert self.step(name, run) == 0, name
        self.is_whole(run, number)

    def is_whole(self, run: Run, number: float) -> None:
        """That night is live, nobody was told anything wrong, and what is loaded is what is routed to, whole."""
        self.number = number
        assert self.live() == run.generation
        self.lookups.settle(number)
        self.lookups.wait_for_more(20)
        assert not self.lookups.wrong, self.lookups.wrong[:3]
        document = self.document()
        assert document
        keys = [key.decode().split(":") for key in self.redis.keys(f"hs:{MODEL}:g:*")]
        named = {(version, one.id) for version, one in document.generations}
        loaded = {(parts[3], parts[4]) for parts in keys}
        assert loaded == named, f"{loaded} are loaded, {named} are routed to"
        for version, generation in named:
            assert self.redis.exists(generation_manifest_key(MODEL, version, generation))
            assert self.fields(version, generation) == {field_of(entity.encode()) for entity in ENTITIES}

    def still_old(self, before: str | None) -> None:
        """What was live before is, and is what everybody is told."""
        assert self.live() == before
        self.lookups.wait_for_more(20)
        assert not self.lookups.wrong, self.lookups.wrong[:3]
        assert self.lookups.allowed == {self.number}

    def fields(self, version: str, generation: str) -> set[bytes]:
        """All fields of a generation. Fails where one is there twice."""
        found: list[bytes] = []
        buckets = sorted(self.redis.keys(bucket_key(MODEL, version, generation, 0).removesuffix("0") + "[0-9]*"))
        for bucket in buckets:
            found += self.redis.hkeys(bucket)
        assert len(found) == len(set(found))
        return set(found)


class _Made(Released):
    """With bundles that `begin` accepts: their files are there, though nothing is in them."""

    def small(self, version: str = "1") -> Small:
        records = {entity: {"distance": 100.0, "edge": 0.0, "airline": "UA"} for entity in self.entities}
        manifest = small_manifest(MODEL, version)
        empty = dict.fromkeys(REQUIRED_FILES, sha256(b"").hexdigest())
        made = Small(self.folder, manifest.model_copy(update={"files": empty}), records, self.entities)
        for name in REQUIRED_FILES:
            Path(made.url, name).touch()
        return made


@contextmanager
def running_world(folder: Path, options: Sequence[str] = PERSISTENT, data: Path | None = None) -> Iterator[World]:
    """Two nights are live already.

    Args:
        options: of the server.
        data: the data root, where it is not to lie in `folder`.
    """
    with (
        RedisServer(options) as server,
        Redis.from_url(server.url) as redis,
        pytest.MonkeyPatch.context() as patch,
    ):
        environment = {
            "BATCH_REDIS_URL": server.url,
            "BATCH_DATA_URL": str(data or folder / "data"),
            "BATCH_CACHE_DIR": str(folder / "cache"),
            "BATCH_ALLOWED_BUNDLE_URLS": json.dumps([str(folder)]),
            "BATCH_RETIRE_AFTER_S": "0",
            # Small writes, so that half of a part is something; and no long wait for a server that is killed.
            "BATCH_WRITE_BATCH_ENTITIES": "1",
        }
        for name, value in environment.items():
            patch.setenv(name, value)
        world = World(folder, server, redis, environment)
        for _ in range(2):
            run, number = world.night()
            world.steps(run, *STEPS)
            world.number = number
        # Without its own memory the API asks Redis each time, which is what is to be seen.
        # No live tier stands behind it: a look-up that only a busy machine delays must not become a miss.
        slow_ms = "3000"
        with ApiProcess(folder, redis_url=server.url, models=[MODEL], l1_bytes=0, lookup_budget_ms=slow_ms) as api:
            api.wait_ready()
            with SteadyLookups(api.base, MODEL, ENTITIES, {world.number}) as world.lookups:
                world.lookups.settle(world.number)
                yield world
