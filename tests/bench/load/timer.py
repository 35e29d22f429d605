"""A wake-up at an absolute time with the precision of Linux's high-resolution timers.

The time-outs of `epoll` and of event loops round to a millisecond, a tenth of what is measured here. Python has
`os.timerfd_create` from 3.13 on; until then it is called by way of ctypes.
"""

import ctypes
import os
import struct

_CLOCK_MONOTONIC = 1  # also the clock of `time.perf_counter` on Linux
_TFD_NONBLOCK = os.O_NONBLOCK
_TFD_TIMER_ABSTIME = 1
_ITIMERSPEC = struct.Struct("qqqq")  # interval and first expiry: seconds and nanoseconds each
_NS = 10**9


class Timer:
    """`fileno` becomes readable at the time set last. Closed by `close`."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def fileno(self) -> int:
        return self._fd

    def set(self, at_s: float) -> None:
        """`at_s`: by `time.perf_counter`; a time that has passed fires at once. Unreadable again once set anew."""
        at_ns = max(1, round(at_s * _NS))
        spec = _ITIMERSPEC.pack(0, 0, *divmod(at_ns, _NS))
        if self._libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, spec, None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def close(self) -> None:
        os.close(self._fd)
