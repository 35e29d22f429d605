"""A device that is emulated: the program runs on CPU, and what T(b) leaves is waited out. No torch here."""

import ctypes
import sys
import threading
import time
from collections.abc import Callable

from online.inference.worker.execution import RunBatch
from schemas.capacity import BatchTime
from schemas.wire import Float32Array, Tensor

_PR_SET_TIMERSLACK = 29
_MOST_LATE_S = 2e-4  # of an emulated device's waking: what is more is somebody else's work


class EmulatedRunner:
    """Makes each batch take T(b): what the program left of it is waited out. `overruns` counts the others.

    Half of the wait comes before the program: while a device works, the interpreter is the event loop's, which
    then answers the last batch. The program, being here in the device's stead, would hold it.

    A thread that sleeps wakes late, by what depends on the machine and its load. So it sleeps less by what that
    mostly is, and looks at the clock for what is left: no batch is shorter than T(b), and few are longer.

    Args:
        now_s, sleep: the clock; a test brings its own.
    """

    def __init__(
        self,
        run_batch: RunBatch,
        time_of_batch: BatchTime,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._run_batch, self._time = run_batch, time_of_batch
        self._now_s, self._sleep = now_s, sleep
        self._program_s = 0.0
        self._wakes_late_s = 0.0
        self._thread: threading.Thread | None = None
        self.overruns = 0

    def __call__(self, tensors: list[Tensor]) -> Float32Array:
        batch_s = self._time.batch_ms(len(tensors[0])) / 1e3
        end_s = self._now_s() + batch_s
        if self._thread is not threading.current_thread():
            self._thread = threading.current_thread()
            _wake_precisely()
        # Twice the last run's time is kept for this one.
        self._sleep(max(0.0, batch_s / 2 - self._program_s))
        began_s = self._now_s()
        outputs = self._run_batch(tensors)
        self._program_s = self._now_s() - began_s
        if self._now_s() > end_s:
            self.overruns += 1
        else:
            self._wait_until(end_s)
        return outputs

    def _wait_until(self, end_s: float) -> None:
        wakes_s = end_s - self._wakes_late_s
        if (asleep_s := wakes_s - self._now_s()) > 0:
            self._sleep(asleep_s)
            late_s = min(max(0.0, self._now_s() - wakes_s), _MOST_LATE_S)
            self._wakes_late_s += (late_s - self._wakes_late_s) / 8
        while self._now_s() < end_s:
            pass


def _wake_precisely() -> None:
    """Linux wakes a thread up to 50 µs late to save power, unless its own timer slack says otherwise."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
