"""`python -m tests.bench.live.closed_loop ADDRESS DIGEST`: keeps a worker saturated by its wire socket.

Single rows, three batches of them outstanding: a result is followed by the same row again. For each line of
standard input with a number of seconds it does so, and says how many rows came back, and what they were.
"""

import asyncio
import sys
import time
from typing import cast

import numpy as np
import uvloop

from online.wire_client.dialling import dial
from schemas import wire
from schemas.wire import FrameType
from tests.bench.live.rows import heavy_rows, say


class Saturation(asyncio.Protocol):
    """One connection. `results` are kept as they come, to be looked at after the run."""

    def __init__(self, digest: str) -> None:
        tag = wire.version_tag(digest)
        self._frames = [
            wire.request(wire.Request(place, tag, 0, 0, [row[None, :]])) for place, row in enumerate(heavy_rows())
        ]
        self._reader = wire.FrameReader()
        self._transport: asyncio.Transport | None = None
        self._is_running = False
        self._left = 0
        self.results: list[wire.Result] = []
        self.failures: list[wire.Failure] = []
        self.greeted, self.all_back = asyncio.Event(), asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(wire.hello({"role": "bench"}))

    def data_received(self, data: bytes) -> None:
        answered = []
        for kind, body in self._reader.feed(data):
            if kind is FrameType.RESULT:
                self.results.append(wire.parse_result(body))
                answered.append(self.results[-1].request_id)
            elif kind is FrameType.ERROR:
                self.failures.append(wire.parse_failure(body))
                answered.append(self.failures[-1].request_id)
            else:
                self.greeted.set()
        if answered and self._is_running:
            self._write([self._frames[place] for place in answered])
        self._left -= len(answered)
        if not self._left:
            self.all_back.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.all_back.set()

    async def run(self, seconds: float) -> float:
        """Seconds until the last row was back. Raises ConnectionError where the worker went away."""
        self.results.clear()
        self.all_back.clear()
        self._is_running, began_s = True, time.perf_counter()
        self._write(self._frames)
        await asyncio.sleep(seconds)
        self._is_running = False
        await self.all_back.wait()
        if self._transport is None:
            raise ConnectionError("the worker closed the connection")
        return time.perf_counter() - began_s

    def _write(self, frames: list[bytes]) -> None:
        self._left += len(frames)
        if self._transport is not None:
            self._transport.write(b"".join(frames))


async def serve(address: str, digest: str) -> None:
    saturation = await dial(address, lambda: Saturation(digest))
    await saturation.greeted.wait()
    say({})
    while line := await asyncio.to_thread(sys.stdin.readline):
        wall_s = await saturation.run(float(line))
        results = saturation.results
        places = [result.request_id for result in results]
        values = [float(result.outputs[0, 0]) for result in results]
        say(
            {
                "rows_per_s": len(results) / wall_s,
                "batch_rows": float(np.mean([result.batch_rows for result in results])),
                "batch_ms": float(np.mean([result.execute_us for result in results])) / 1e3,
                "failures": len(saturation.failures),
                "places": places,
                "values": values,
            }
        )


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], sys.argv[2]))
