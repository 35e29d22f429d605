"""Between the API and Redis: delays, single bytes, resets and, where asked for, replies that change places."""

import asyncio
import re
import socket
import struct
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Self

_PACKED = re.compile(rb"\$(\d+)\r\n\x01")  # a bulk string that begins with the version of its codec
_SINGLE_BYTES = 64


@dataclass(frozen=True)
class Weather:
    """Odds for each block that passes, either way; `swap` for each two neighbouring replies of one length.

    Attributes:
        short_s, long_s, hang_s: longest delays. Many a long one is over what a look-up may take; after a hang the
            API has given the connection up.
    """

    short: float = 0.0
    long: float = 0.0
    split: float = 0.0
    hang: float = 0.0
    reset: float = 0.0
    swap: float = 0.0
    short_s: float = 0.010
    long_s: float = 0.120
    hang_s: float = 3.0


CALM = Weather()


class FaultyProxy:
    """Use as `with`; runs in a thread of its own.

    Attributes:
        weather: calm at first; may be changed at any time.
        counts: of what was done to whom.
    """

    def __init__(self, target_port: int, seed: int) -> None:
        self.weather, self.counts = CALM, Counter[str]()
        self._target_port, self._seed = target_port, seed
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(5)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        self._ready.set()
        self._loop.run_forever()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.counts["connections"] += 1
        seed = f"{self._seed} {self.counts['connections']}"
        pumps: list[asyncio.Task[None]] = []
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
            pumps = [
                asyncio.create_task(_Pump(self, Random(f"{seed} out"), False).run(reader, server_writer)),
                asyncio.create_task(_Pump(self, Random(f"{seed} in"), True).run(server_reader, writer)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            server_writer.transport.abort()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for pump in pumps:
                pump.cancel()
            if pumps:
                await asyncio.wait(pumps)
            self._tasks.discard(task)
            _reset(writer)


class _Pump:
    """One way of one connection; ends with it, or by resetting it."""

    def __init__(self, proxy: FaultyProxy, random: Random, is_answer: bool) -> None:
        self._proxy, self._random, self._is_answer = proxy, random, is_answer

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while block := await reader.read(1 << 16):
                weather = self._proxy.weather
                if self._is_answer and weather.swap:
                    block, swapped = swap_neighbours(block, weather.swap, self._random)
                    self._proxy.counts["swaps"] += swapped
                await self._delay(weather)
                if self._is(weather.reset, "resets"):
                    writer.write(block[: self._random.randrange(len(block) + 1)])
                    return
                if self._is(weather.split, "splits"):
                    await self._write_split(writer, block)
                else:
                    writer.write(block)

    async def _delay(self, weather: Weather) -> None:
        kinds = (weather.hang, weather.hang_s), (weather.long, weather.long_s), (weather.short, weather.short_s)
        for (odds, longest_s), event in zip(kinds, ("hangs", "long delays", "short delays"), strict=True):
            if self._is(odds, event):
                await asyncio.sleep(longest_s * self._random.random())
                return

    async def _write_split(self, writer: asyncio.StreamWriter, block: bytes) -> None:
        pause_at = self._random.randrange(_SINGLE_BYTES)
        for at in range(min(len(block), _SINGLE_BYTES)):
            writer.write(block[at : at + 1])
            await asyncio.sleep(0.001 if at == pause_at else 0)
        writer.write(block[_SINGLE_BYTES:])

    def _is(self, odds: float, event: str) -> bool:
        found = odds > 0 and self._random.random() < odds
        self._proxy.counts[event] += found
        return found


def swap_neighbours(block: bytes, odds: float, random: Random) -> tuple[bytes, int]:
    """Packed values in replies, exchanged with the next one of the same length; and how many pairs were."""
    found = [(match.end() - 1, int(match[1])) for match in _PACKED.finditer(block)]
    found = [(at, size) for at, size in found if block[at + size : at + size + 2] == b"\r\n"]
    swapped, place, told = bytearray(block), 0, 0
    while place + 1 < len(found):
        (one, size), (two, other) = found[place : place + 2]
        first, second = block[one : one + size], block[two : two + other]
        place += 1
        if size == other and first != second and random.random() < odds:
            swapped[one : one + size], swapped[two : two + size] = second, first
            place, told = place + 1, told + 1
    return bytes(swapped), told


def _reset(writer: asyncio.StreamWriter) -> None:
    """By RST, as a machine does that has forgotten the connection."""
    with suppress(OSError):
        found = writer.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
