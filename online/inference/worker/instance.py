"""One of several copies of a model on CPU: a process of its own, with its share of the cores.

Copies in one process would hold each other's interpreter. The worker keeps the queue and sends whole batches over
a pair of sockets, in frames of the wire; this process runs them, and ends when the worker's end of the pair is
closed. It is started as `python -m online.inference.worker.instance --fd N` and the worker's own arguments.
"""

import logging
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence

from online.inference.worker.execution import DeviceLost, OutOfMemory
from online.inference.worker.options import WorkerOptions
from schemas import wire
from schemas.wire import Float32Array, Tensor

log = logging.getLogger(__name__)

_READ_BYTES = 1 << 20
_OUT_OF_MEMORY, _FAILED = "out_of_memory", "failed"


class RemoteInstance:
    """A `RunBatch` whose model is in another process. Used by one thread at a time."""

    def __init__(self, argv: Sequence[str], threads: int) -> None:
        """Starts the process; `wait_until_loaded` before the first batch."""
        own, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, "--fd", str(other.fileno()), *argv],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,
                env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            )
        self._frames = _Frames(own)
        self._threads = self._wanted_threads = threads

    def wait_until_loaded(self) -> None:
        """Raises DeviceLost with the process's reason where it could not load the model."""
        kind, body = self._receive()
        if kind is wire.FrameType.ERROR:
            raise DeviceLost(wire.parse_failure(body).message)

    def give_threads(self, threads: int) -> None:
        """Followed from the next batch on."""
        self._wanted_threads = threads

    def __call__(self, tensors: list[Tensor]) -> Float32Array:
        """Raises DeviceLost where the process has ended, OutOfMemory, RuntimeError with the model's own words."""
        if self._threads != self._wanted_threads:
            self._threads = self._wanted_threads
            self._send(wire.status({"threads": self._threads}))
        self._send(wire.request(wire.Request(0, bytes(4), 0, 0, tensors)))
        kind, body = self._receive()
        if kind is wire.FrameType.RESULT:
            return wire.parse_result(body).outputs
        failure = wire.parse_failure(body)
        if failure.code == _OUT_OF_MEMORY:
            raise OutOfMemory(failure.message)
        raise RuntimeError(failure.message)

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


class _Frames:
    """Whole frames over a blocking socket."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self._reader = wire.FrameReader()
        self._ready: list[tuple[wire.FrameType, memoryview]] = []

    def send(self, frame: bytes) -> None:
        self._peer.sendall(frame)

    def receive(self) -> tuple[wire.FrameType, memoryview] | None:
        """None once the peer has closed its end."""
        while not self._ready:
            if not (data := self._peer.recv(_READ_BYTES)):
                return None
            self._ready = self._reader.feed(data)
        return self._ready.pop(0)


def main(argv: Sequence[str]) -> int:
    from online.inference.worker import runner  # here, since the worker that imports this module may need no torch
    from online.logs import configure_logs
    from schemas.bundle import BundleError

    options = WorkerOptions.from_argv(argv[2:])
    configure_logs("inference-instance", options.log_level)
    peer = socket.socket(fileno=int(argv[1]))
    threading.Thread(target=_end_with_the_worker, args=(peer,), name="leash", daemon=True).start()
    frames = _Frames(peer)
    try:
        run_batch = runner.load_here(options, runner.fetch(options))
    except BundleError as error:
        frames.send(_failure(_FAILED, str(error)))
        return 1
    frames.send(wire.hello({"role": "instance"}))
    while (frame := frames.receive()) is not None:
        kind, body = frame
        if kind is wire.FrameType.STATUS:
            run_batch.share.threads = int(str(wire.parse_document(body)["threads"]))
            continue
        try:
            outputs = run_batch(wire.parse_request(body).tensors)
            answer = wire.result(wire.Result(0, outputs, len(outputs), 0, 0, 0))
        except OutOfMemory as failure:
            answer = _failure(_OUT_OF_MEMORY, str(failure))
        except Exception as failure:  # noqa: BLE001 - whatever a model raises is an outcome of its batch
            answer = _failure(_FAILED, f"{type(failure).__name__}: {failure}")
        frames.send(answer)
    return 0


def _end_with_the_worker(peer: socket.socket) -> None:
    """Loading takes seconds, a batch may too; a worker that is gone wants neither."""
    poll = select.poll()
    poll.register(peer, select.POLLHUP)
    poll.poll()
    os._exit(0)


def _failure(code: str, message: str) -> bytes:
    return wire.failure(wire.Failure(0, code, message, 0))


if __name__ == "__main__":
    status = main(sys.argv[1:])
    logging.shutdown()
    os._exit(status)
