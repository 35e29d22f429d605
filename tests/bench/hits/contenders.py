"""What is measured: the product with L1 and without, the floor, the usual way, and Feast where it is set up."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import orjson
import psutil
from redis import Redis

from infra.local.others import FEAST
from tests.bench.hits.asking import (
    Check,
    Write,
    batch_document,
    get,
    is_batch,
    is_constant,
    is_document,
    is_feast_document,
    post,
)
from tests.bench.hits.entities import ENTITIES, MODEL, OUTPUT, document_of, entity_of
from tests.bench.hits.known import publish
from tests.bench.peers.plain_server import KEY_PREFIX
from tests.support.api_process import ROOT, ApiProcess, wait_for
from tests.support.redis_server import RedisServer, free_port

HOTSET, HOTSET_L1, BATCH = "hotset", "hotset, L1", "hotset, batch"
FLOOR, PLAIN, FEAST_NAME = "floor", "plain", "feast"
# Those whose errors are failures of the benchmark; the others may break under what they are offered.
OURS = (HOTSET, HOTSET_L1, BATCH, FLOOR)
_START_S, _GRACE_S = 90.0, 5.0
# Ten times the default, so that a stall of the machine is measured as latency, not cut off as a miss.
_LOOKUP_BUDGET_MS = "200"
FOLD_S = 1.3  # the request log is folded into the metrics once a second
_PREDICTIONS = f"/v1/models/{MODEL}/predictions"


@dataclass(frozen=True)
class Contender:
    """`pid`: of the process whose CPU, with that of its children, is the server's.

    Attributes:
        is_skewed: asked by Zipf; else evenly.
        draws: requests of a closed loop before it starts over.
    """

    name: str
    port: int
    pid: int
    request: Write
    check: Check
    is_skewed: bool = True
    draws: int = 20_000

    def ask(self, number: int) -> httpx.Response:
        """One request as the load sends it, by another client."""
        head, _, body = self.request(number).partition(b"\r\n\r\n")
        method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
        json = {"Content-Type": "application/json"}
        return httpx.request(method, f"http://127.0.0.1:{self.port}{path}", content=body, headers=json)


@dataclass(frozen=True)
class Stack:
    """All that runs. `redis_pid` is shared by the product and the usual way."""

    by_name: dict[str, Contender]
    redis_url: str
    redis_pid: int

    def metrics(self, name: str) -> str:
        """Of an instance of the product; what it answered less than `FOLD_S` ago may be missing."""
        return httpx.get(f"http://127.0.0.1:{self.by_name[name].port}/metrics").text


@contextmanager
def running(folder: Path) -> Iterator[Stack]:
    """All but Feast, loaded and ready. They wait while another is measured."""
    with ExitStack() as stack:
        redis = RedisServer()
        stack.callback(redis.stop)
        stack.enter_context(redis)
        redis_pid = _child(str(redis.port))  # before others have the port in their words
        product, with_l1 = _products(stack, folder, redis.url)
        write = post(f"{_PREDICTIONS}:batch", batch_document)
        batch = Contender(BATCH, product.port, product.pid, write, is_batch, is_skewed=False, draws=1000)
        body = product.ask(0).content
        (folder / "body").write_bytes(body)
        words = ["--body", str(folder / "body")]
        floor = _peer(stack, folder, FLOOR, words, get(f"{_PREDICTIONS}/{{}}"), is_constant(body))
        words = ["--redis-url", redis.url]
        plain = _peer(stack, folder, PLAIN, words, get("/predictions/{}"), is_document)
        started = (product, with_l1, batch, floor, plain)
        yield Stack({one.name: one for one in started}, redis.url, redis_pid)


@contextmanager
def feast(folder: Path, redis_url: str) -> Iterator[Contender]:
    """Takes a quarter of a minute to start: Feast writes its own copy of the entities first."""
    folder.mkdir()
    words = ["--redis", redis_url.removeprefix("redis://").removesuffix("/0"), "--folder", str(folder)]
    asked = post(
        "/get-online-features",
        lambda number: {"features": [f"known:{OUTPUT}"], "entities": {"entity": [entity_of(number)]}},
    )
    with ExitStack() as stack:
        python = str(FEAST.python)
        yield _peer(stack, folder, FEAST_NAME, words, asked, is_feast_document, python)


def has_feast() -> bool:
    return FEAST.is_current()


def _products(stack: ExitStack, folder: Path, redis_url: str) -> list[Contender]:
    """Without L1, and with it. They start while Redis is loaded, and find what is live when it is."""
    apis = {HOTSET: _api(folder, HOTSET, redis_url, l1_bytes="0"), HOTSET_L1: _api(folder, HOTSET_L1, redis_url)}
    for api in apis.values():
        stack.callback(api.kill)  # before it has a process: an interrupt may come at any time
        stack.push(api)
    with ThreadPoolExecutor() as pool:
        starts = [pool.submit(api.start) for api in apis.values()]
        publish(folder, redis_url)
        _write_plain(redis_url)
        for start in starts:
            start.result()
    started = []
    for name, api in apis.items():
        contender = Contender(name, api.port, api.pid, get(f"{_PREDICTIONS}/{{}}"), is_document)
        _wait_right(contender, api.folder / "api.log")
        started.append(contender)
    return started


def _api(folder: Path, name: str, redis_url: str, **settings: object) -> ApiProcess:
    """As its user starts it, but for one worker and what is said here. No live tier: a miss is an error."""
    own = folder / name.replace(", ", "-")
    own.mkdir()
    return ApiProcess(
        own,
        redis_url=redis_url,
        models=[MODEL],
        allowed_bundle_urls=[str(folder)],
        lookup_budget_ms=_LOOKUP_BUDGET_MS,
        **settings,
    )


def _peer(
    stack: ExitStack,
    folder: Path,
    name: str,
    words: Sequence[str],
    request: Write,
    check: Check,
    python: str = sys.executable,
) -> Contender:
    port, log = free_port(), folder / f"{name}.log"
    script = ROOT / "tests" / "bench" / "peers" / f"{name}_server.py"
    # Its home: some leave files there.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder)}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [python, str(script), "--port", str(port), *words],
            cwd=folder,
            env=environment,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    stack.callback(_end, process)
    contender = Contender(name, port, process.pid, request, check)
    _wait_right(contender, log)
    return contender


def _wait_right(contender: Contender, log: Path) -> None:
    """Raises AssertionError where no right answer comes, with the end of the log."""

    def is_right() -> bool:
        with suppress(httpx.TransportError):
            answer = contender.ask(1)
            return answer.status_code == httpx.codes.OK and contender.check(1, answer.content) is None
        return False

    try:
        wait_for(is_right, _START_S, f"{contender.name} answers rightly")
    except AssertionError as error:
        raise AssertionError(f"{error}; its log ends: {log.read_text(errors='replace')[-2000:]}") from None


def _write_plain(redis_url: str) -> None:
    """The answer's document as one string for each entity, ready to be passed on: nothing is quicker to read."""
    with Redis.from_url(redis_url) as redis:
        for first in range(0, ENTITIES, 10_000):
            numbers = range(first, min(ENTITIES, first + 10_000))
            redis.mset(
                {f"{KEY_PREFIX}{entity_of(number)}": orjson.dumps(document_of(number)) for number in numbers}
            )


def _child(word: str) -> int:
    """The child of this process whose command line has the word."""
    return next(child.pid for child in psutil.Process().children() if word in " ".join(child.cmdline()))


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(_GRACE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
