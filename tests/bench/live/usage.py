"""What the processes under this one use: CPU by part, as shares of one core."""

import time
from contextlib import suppress
from typing import Self

import psutil

# The first that the command line holds names the part.
_PARTS = (
    ("resource_tracker", ""),
    ("online.inference.worker.instance", "inference_instance"),
    ("online.inference.worker", "inference_worker"),
    ("online.inference", "inference_node"),
    ("online.api", "api_parent"),
    ("spawn_main", "api_worker"),
    ("valkey-server", "valkey"),
)


class CpuMeter:
    """Use as `with`; `shares` are of the time inside, of processes that lived through all of it.

    Args:
        one_part: what all of them together are called, instead of by the parts of the product.
    """

    def __init__(self, one_part: str | None = None) -> None:
        self._one_part = one_part
        self.shares: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._began_s, self._before = time.perf_counter(), _cpu_s()
        return self

    def __exit__(self, *exc_info: object) -> None:
        wall_s, after = time.perf_counter() - self._began_s, _cpu_s()
        for process, (part, before_s) in self._before.items():
            if process in after:
                used_s = after[process][1] - before_s
                name = self._one_part or part
                self.shares[name] = self.shares.get(name, 0.0) + used_s / wall_s


def _cpu_s() -> dict[psutil.Process, tuple[str, float]]:
    found = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            command = " ".join(process.cmdline())
            part = next((name for text, name in _PARTS if text in command), process.name())
            times = process.cpu_times()
            if part:
                found[process] = (part, times.user + times.system)
    return found
