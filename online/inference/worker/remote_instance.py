"""The worker's side of an instance on CPU: a process of its own that runs whole batches (`instance.py`).

In the worker's own process the model and the event loop would wait for each other's turn at the interpreter, at
every step of the model: on two cores that costs a tenth of what a core can do, and more where steps are short.
"""

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from online.inference.worker.execution import DeviceLost, OutOfMemory
from online.inference.worker.frames import Frames
from schemas import wire
from schemas.wire import Float32Array, Tensor

# Keys of the orders and codes of the failures that the two processes exchange.
THREADS, SERVES = "threads", "serves"
OUT_OF_MEMORY, FAILED = "out_of_memory", "failed"

_MODULE = "online.inference.worker.instance"
_END_S = 5.0


class RemoteInstance:
    """A `Launcher` whose model is in another process, which takes the batches it is sent one after another.

    Used by one thread at a time.
    """

    def __init__(self, folder: Path, argv: Sequence[str], threads: int) -> None:
        """Starts the process, with the priority of the calling thread; `wait_until_loaded` before the first batch.

        Args:
            folder: of the bundle, which has been fetched and checked.
            argv: the worker's own arguments.
        """
        own, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, "--fd", str(other.fileno()), "--folder", str(folder), *argv],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,
                env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            )
        self._socket, self._frames = own, Frames(own)
        self._threads = self._wanted_threads = threads
        self._sent = 0
        self._came: dict[int, Float32Array | wire.Failure] = {}

    def wait_until_loaded(self) -> None:
        """Raises DeviceLost with the process's reason where it could not load the model."""
        kind, body = self._receive()
        if kind is wire.FrameType.ERROR:
            raise DeviceLost(wire.parse_failure(body).message)

    def serve(self) -> None:
        """All batches from now on are of requests: until then the process gives way to others."""
        self._send(wire.status({SERVES: True}))

    def give_threads(self, threads: int) -> None:
        """Followed from the next batch on."""
        self._wanted_threads = threads

    def close(self) -> None:
        """Ends the process."""
        self._socket.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __call__(self, tensors: list[Tensor]) -> Float32Array:
        """Raises what `collect` raises."""
        return self.launch(tensors)()

    def launch(self, tensors: list[Tensor]) -> "Sent":
        """Raises DeviceLost where the process has ended."""
        if self._threads != self._wanted_threads:
            self._threads = self._wanted_threads
            self._send(wire.status({THREADS: self._threads}))
        self._sent += 1
        self._send(wire.request(wire.Request(self._sent, bytes(4), 0, 0, tensors)))
        return Sent(self, self._sent)

    def collect(self, number: int) -> Float32Array:
        """Waits for the outputs of a batch; of each once.

        Raises DeviceLost where the process has ended, OutOfMemory, RuntimeError with the model's own words.
        """
        while number not in self._came:
            kind, body = self._receive()
            if kind is wire.FrameType.RESULT:
                result = wire.parse_result(body)
                self._came[result.request_id] = result.outputs
            else:
                failure = wire.parse_failure(body)
                self._came[failure.request_id] = failure
        outcome = self._came.pop(number)
        if not isinstance(outcome, wire.Failure):
            return outcome
        if outcome.code == OUT_OF_MEMORY:
            raise OutOfMemory(outcome.message)
        raise RuntimeError(outcome.message)

    def hears_by(self, at_ns: int) -> bool:
        """Waits until then, at most, for the process to say anything."""
        if self._came or self._frames.has_whole:
            return True
        left_s = max(0.0, (at_ns - time.monotonic_ns()) / 1e9)
        return bool(select.select([self._socket], [], [], left_s)[0])

    def _send(self, frame: bytes) -> None:
        try:
            self._frames.send(frame)
        except OSError as error:
            raise DeviceLost(f"an instance's process has ended: {error}") from None

    def _receive(self) -> tuple[wire.FrameType, memoryview]:
        try:
            frame = self._frames.receive()
        except OSError as error:
            raise DeviceLost(f"an instance's process has ended: {error}") from None
        if frame is None:
            raise DeviceLost(f"an instance's process has ended with status {self._process.wait()}")
        return frame


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch that the process has been sent."""

    instance: RemoteInstance
    number: int

    def is_back_by(self, at_ns: int) -> bool:
        """The process answers in order, so what comes first is this batch's, if earlier ones are collected."""
        return self.instance.hears_by(at_ns)

    def __call__(self) -> Float32Array:
        """Raises what `RemoteInstance.collect` raises."""
        return self.instance.collect(self.number)
