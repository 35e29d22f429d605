"""Clients on raw connections: they ask, pipeline now and then, check each answer, and go away when they like."""

import asyncio
import socket
import struct
import time
from collections.abc import Callable, Sequence
from enum import Enum
from random import Random

import orjson

from tests.soak.asking import Asked, Copy, Draw
from tests.soak.checking import Fault, Reply, documents_of, faults_of
from tests.soak.known import Era
from tests.soak.tally import Tally

_PIPELINED, _LONGEST_PIPELINE = 0.1, 4
_ANSWER_S = 15.0
_COPIES = 50


class Leave(Enum):
    """When a client goes away: amid its request, before, amid or after an answer."""

    SENDING = "amid the request"
    BEFORE = "before the answer"
    DURING = "amid the answer"
    AFTER = "after the answer"


class Budget:
    """Requests that all clients together still have to send."""

    def __init__(self, requests: int) -> None:
        self.left = requests

    def take(self, wanted: int) -> int:
        taken = min(wanted, self.left)
        self.left -= taken
        return taken


class Client:
    """Sends until the budget is used up.

    Args:
        think_s: mean pause between requests.
        leaving: share of its turns after which the connection is gone.
    """

    def __init__(
        self,
        port: int,
        seed: str,
        eras: Sequence[Era],
        tally: Tally,
        think_s: float = 0.01,
        leaving: float = 0.0,
    ) -> None:
        self._port, self._eras, self._tally = port, eras, tally
        self._think_s, self._leaving = think_s, leaving
        self._random, self._draw = Random(f"client {seed}"), Draw(seed)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, budget: Budget) -> None:
        try:
            while count := budget.take(self._turn()):
                asked = [self._draw.request() for _ in range(count)]
                leave = self._random.choice(list(Leave)) if self._random.random() < self._leaving else None
                self._tally.requests += count
                await self._ask(asked, leave)
                await asyncio.sleep(self._random.expovariate(1 / self._think_s))
        finally:
            self._go(is_reset=False)

    async def ask_in_turn(self, make: Callable[[Draw], Sequence[Asked]]) -> None:
        """One after the other, waiting for each."""
        try:
            for asked in make(self._draw):
                self._tally.requests += 1
                await self._ask([asked], None)
        finally:
            self._go(is_reset=False)

    async def _ask(self, asked: Sequence[Asked], leave: Leave | None) -> None:
        try:
            async with asyncio.timeout(_ANSWER_S):
                await self._exchange(asked, leave)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            self._tally.blame(asked[0], Fault(f"no answer: {error!r}"))
            self._go(is_reset=True)

    def _turn(self) -> int:
        is_pipelined = self._random.random() < _PIPELINED
        return self._random.randint(2, _LONGEST_PIPELINE) if is_pipelined else 1

    async def _exchange(self, asked: Sequence[Asked], leave: Leave | None) -> None:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        raw, sent_s = b"".join([one.raw for one in asked]), time.monotonic()
        if leave is Leave.SENDING:
            raw = raw[: self._random.randrange(1, len(raw))]
        writer.write(raw)
        whole = self._whole(len(asked), leave)
        for one in asked[:whole]:
            self._take(one, await read_reply(reader), sent_s)
        if leave is Leave.BEFORE:
            await asyncio.sleep(0.02 * self._random.random() ** 2)
        elif leave is Leave.DURING:
            await reader.read(self._random.randint(1, 400))
        if leave is not None:
            self._tally.left[leave.value] += 1
            self._go(is_reset=self._random.random() < 0.5)

    def _whole(self, count: int, leave: Leave | None) -> int:
        """How many answers are read to their end."""
        if leave is Leave.SENDING:
            return 0
        return self._random.randrange(count) if leave in (Leave.BEFORE, Leave.DURING) else count

    def _take(self, asked: Asked, reply: Reply, sent_s: float) -> None:
        now_s = time.monotonic()
        eras = [era for era in self._eras if era.was_live(sent_s, now_s)]
        try:
            documents = documents_of(asked, reply)
            faults = list(faults_of(asked, reply, documents, eras))
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            documents, faults = [], [Fault(f"no answer of ours: {error!r} {reply.body[:200]!r}")]
        self._tally.add(reply.status, documents)
        for fault in faults:
            self._tally.blame(asked, fault)
        if (etag := reply.headers.get("etag")) and reply.status == 200 and not faults:
            copies = self._draw.copies
            copies[asked.items[0]] = Copy(etag, documents[0])
            if len(copies) > _COPIES:
                del copies[next(iter(copies))]

    def _go(self, is_reset: bool) -> None:
        if self._streams is None:
            return
        _, writer = self._streams
        self._streams = None
        if is_reset:
            found = writer.get_extra_info("socket")
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    """Raises IncompleteReadError where the server closes before its end."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {}
    for line in lines[1:-2]:
        name, _, value = line.partition(": ")
        headers[name.lower()] = value
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Reply(int(lines[0].split(" ", 2)[1]), headers, body)
