"""The process of one instance of a model on CPU: it runs the batches that its worker sends, one after another.

Started as `python -m online.inference.worker.instance --fd N --folder DIR` and the worker's own arguments, with
one end of a pair of sockets. A thread reads it all the time, so that neither process ever waits for the other to
make room; it ends the process when the worker closes its end. The model is loaded and warmed up at low priority,
in a thread of its own, since a thread cannot raise its priority again; batches of requests run in the main thread.
"""

import logging
import os
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from online.inference.worker.execution import OutOfMemory
from online.inference.worker.frames import Frames
from online.inference.worker.options import WorkerOptions
from online.inference.worker.priority import yield_to_others
from online.inference.worker.remote_instance import FAILED, OUT_OF_MEMORY, SERVES, THREADS
from online.logs import configure_logs
from schemas import wire
from schemas.bundle import BundleError, read_folder

if TYPE_CHECKING:
    from online.inference.worker.runner import Runner

EXIT_REFUSED = 1


class Instance:
    """One model and the worker that uses it."""

    def __init__(self, peer: socket.socket) -> None:
        self._frames = Frames(peer)
        self._inbox: SimpleQueue[tuple[wire.FrameType, memoryview]] = SimpleQueue()
        self._run_batch: Runner | None = None
        self.is_warm = False

    def read(self) -> None:
        """Body of a thread; ends the process with the worker, whatever else it is doing."""
        try:
            while (frame := self._frames.receive()) is not None:
                self._inbox.put(frame)
        except OSError:
            pass
        os._exit(0)

    def load(self, options: WorkerOptions, folder: Path) -> None:
        """Body of a thread: loads, says so, and runs what the worker sends until it has requests."""
        yield_to_others()
        from online.inference.worker import runner  # here, because it loads torch, which takes seconds

        try:
            bundle = read_folder(folder, options.digest)
            self._run_batch = runner.load_here(options, bundle)
        except BundleError as error:
            self._frames.send(_failure(0, FAILED, str(error)))
            return
        self._frames.send(wire.hello({"role": "instance"}))
        self.answer()
        self.is_warm = True

    def answer(self) -> None:
        """Runs batches; returns when the worker says that it serves from now on."""
        assert self._run_batch is not None
        while True:
            kind, body = self._inbox.get()
            if kind is not wire.FrameType.STATUS:
                self._frames.send(_answer(self._run_batch, wire.parse_request(body)))
                continue
            order = wire.parse_document(body)
            if THREADS in order:
                self._run_batch.give_threads(int(str(order[THREADS])))
            if SERVES in order:
                return


def _answer(run_batch: "Runner", request: wire.Request) -> bytes:
    number = request.request_id
    try:
        outputs = run_batch(request.tensors)
        return wire.result(wire.Result(number, outputs, len(outputs), 0, 0, 0))
    except OutOfMemory as failure:
        return _failure(number, OUT_OF_MEMORY, str(failure))
    except Exception as failure:  # noqa: BLE001 - whatever a model raises is an outcome of its batch
        return _failure(number, FAILED, f"{type(failure).__name__}: {failure}")


def _failure(number: int, code: str, message: str) -> bytes:
    return wire.failure(wire.Failure(number, code, message, 0))


def main(argv: Sequence[str]) -> int:
    _, fd, _, folder, *words = argv
    options = WorkerOptions.from_argv(words)
    configure_logs("inference-instance", options.log_level)
    instance = Instance(socket.socket(fileno=int(fd)))
    threading.Thread(target=instance.read, name="reader", daemon=True).start()
    loading = threading.Thread(target=instance.load, args=(options, Path(folder)), name="load", daemon=True)
    loading.start()
    loading.join()
    if not instance.is_warm:
        return EXIT_REFUSED
    while True:
        instance.answer()


if __name__ == "__main__":
    status = main(sys.argv[1:])
    logging.shutdown()
    os._exit(status)
