"""The inference tier as the API sees it: nodes found, workers connected, rows sent where least is outstanding."""

import asyncio
import logging
import random
from collections.abc import Coroutine, Sequence
from typing import Any, Self

from online.api.live.attempts import Attempts
from online.api.live.contract import Answered, Sending
from online.api.live.directory import DirectoryConnection, WorkerAddress
from online.errors import Overloaded
from online.pauses import Pauses
from online.wire_client.asking import Awaited, Rows
from online.wire_client.dialling import addresses_of, dial
from online.wire_client.replica import Replica
from schemas import wire

log = logging.getLogger(__name__)

_RESOLVE_S = 5.0
# Workers and directories push a status frame each second; one that is silent for so long is taken for dead.
_SILENCE_S = 5.0


class LiveTier:
    """Use as `async with`."""

    def __init__(self, nodes: tuple[str, ...]) -> None:
        self._nodes = nodes
        self._loop = asyncio.get_running_loop()
        self._hello = wire.hello({"role": "api"})
        self._tasks: dict[object, asyncio.Task[None]] = {}
        self._told: dict[str, frozenset[WorkerAddress]] = {}
        self._replicas: dict[str, list[Replica]] = {}
        self.changed = asyncio.Event()
        self.failovers = 0

    async def __aenter__(self) -> Self:
        for name in self._nodes:
            self._start(name, self._follow_name(name))
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def now_s(self) -> float:
        """By the clock of deadlines."""
        return self._loop.time()

    def warm_replicas(self, digest: str) -> int:
        return sum(replica.is_usable for replica in self._replicas.get(digest, ()))

    async def run(self, digest: str, rows: Rows) -> wire.Result:
        """Runs rows on the replica with the least before them; see `Live.run`.

        What one certainly has not executed is tried once on another. What it may have is not: a request that ends
        whoever runs it would end the next one too.
        """
        awaited = Awaited(self._loop.create_future())
        attempts = self.send(awaited, digest, rows)
        try:
            return await awaited.future
        finally:
            attempts.cancel()

    def send(self, answered: Answered, digest: str, rows: Rows) -> Sending:
        attempts = Attempts(self, answered, digest, rows)
        attempts.start()
        return attempts

    def refusal(self, digest: str, deadline_s: float, rows: int) -> Overloaded | None:
        """What every replica of the version would answer to so many rows of this deadline, where that is known."""
        least_s = None
        for replica in self._replicas.get(digest, ()):
            if replica.is_usable:
                wait_s = replica.busy_for_s(deadline_s - self._loop.time(), rows)
                if wait_s <= 0:
                    return None
                least_s = wait_s if least_s is None else min(least_s, wait_s)
        return None if least_s is None else Overloaded("the replicas are over capacity", retry_after_s=least_s)

    def least_loaded(self, digest: str, tried: Sequence[Replica]) -> Replica | None:
        """Whom to ask next."""
        now_s = self._loop.time()
        usable = [
            replica
            for replica in self._replicas.get(digest, ())
            if replica.is_usable and replica.breaker.allows(now_s) and replica not in tried
        ]
        if len(usable) > 1:
            random.shuffle(usable)  # equal ones take turns
            return min(usable, key=lambda replica: replica.load_rows)
        return usable[0] if usable else None

    def _start(self, key: object, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"live {key}")
        self._tasks[key] = task

    def _end(self, key: object) -> None:
        if (task := self._tasks.pop(key, None)) is not None:
            task.cancel()

    async def _follow_name(self, name: str) -> None:
        """Keeps a connection to each address that a configured name has."""
        known: frozenset[str] = frozenset()
        while True:
            try:
                found = await addresses_of(name)
            except OSError as error:
                log.warning("a node's name cannot be resolved", extra={"node": name, "error": str(error)})
            else:
                for address in found - known:
                    self._start(("node", address), self._follow_node(address))
                for address in known - found:
                    self._end(("node", address))
                    self._tell(address, frozenset())
                known = found
            await asyncio.sleep(_RESOLVE_S)

    async def _follow_node(self, address: str) -> None:
        """Workers stay connected while their node's directory is lost: it says nothing about them."""
        pauses = Pauses()
        while True:
            try:
                directory = await dial(
                    address, lambda: DirectoryConnection(self._hello, lambda told: self._tell(address, told))
                )
            except OSError:
                await asyncio.sleep(pauses.next_s())
                continue
            pauses.reset()
            try:
                await _until_lost(directory)
            finally:
                directory.abort()
            await asyncio.sleep(pauses.next_s())

    def _tell(self, node: str, workers: frozenset[WorkerAddress]) -> None:
        before = frozenset().union(*self._told.values())
        self._told[node] = workers
        after = frozenset().union(*self._told.values())
        for gone in before - after:
            self._end(gone)
        for new in after - before:
            self._start(new, self._keep_worker(new))
        self.changed.set()

    async def _keep_worker(self, worker: WorkerAddress) -> None:
        pauses = Pauses()
        pool = self._replicas.setdefault(worker.digest, [])
        while True:
            try:
                replica = await dial(worker.address, lambda: Replica(worker.digest, self._hello, self.changed.set))
            except (OSError, ValueError) as error:
                log.warning("a worker cannot be reached", extra={"address": worker.address, "error": str(error)})
                await asyncio.sleep(pauses.next_s())
                continue
            pool.append(replica)
            try:
                await _until_lost(replica)
            finally:
                pool.remove(replica)
                await _finish(replica)
            if replica.was_ready:
                pauses.reset()
            await asyncio.sleep(pauses.next_s())


async def _until_lost(peer: Replica | DirectoryConnection) -> None:
    """Returns when the connection has ended, or has been silent for so long that it is ended here."""
    loop = asyncio.get_running_loop()
    while not peer.lost.is_set():
        left_s = peer.heard_s + _SILENCE_S - loop.time()
        if left_s <= 0:
            log.warning("a peer of the inference tier is silent")
            peer.abort()
            return
        try:
            async with asyncio.timeout(left_s):
                await peer.lost.wait()
        except TimeoutError:
            continue


async def _finish(replica: Replica) -> None:
    """A worker that left the directory drains: what it still works on is awaited, nothing new is sent."""
    try:
        async with asyncio.timeout(_SILENCE_S):
            await replica.idle()
    except TimeoutError:
        log.warning("a replica that drains did not answer everything")
    replica.abort()
