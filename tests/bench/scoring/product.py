"""The product's score step on local Spark: timed as a whole, its memory, and what it scored."""

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pyarrow.parquet as pq

from schemas.codec import HEAD_BYTES, Float32Array
from tests.bench.scoring.night import Begun, score

_DAEMON = "pyspark.daemon"


@dataclass(frozen=True)
class SparkRun:
    """One call of the step.

    Attributes:
        cpu_s: by part: `jvm`, `workers` (Spark's Python) and `driver` (this process).
        peak_mb: of the resident memory of the largest of Spark's Python workers, in this call.
    """

    rows: int
    seconds: float
    loads: int
    cpu_s: dict[str, float]
    peak_mb: float

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.seconds


def run_score(begun: Begun) -> SparkRun:
    """In the session that there is; once more, where it was done before."""
    begun.forget("score")
    for worker in workers():
        _forget_peak(worker.pid)
    before_s, began_s = _cpu_s(), time.perf_counter()
    score(begun)
    seconds = time.perf_counter() - began_s
    cpu_s = {part: used_s - before_s.get(part, 0.0) for part, used_s in _cpu_s().items()}
    report = begun.report("score")
    peak_mb = max((_peak_mb(worker.pid) for worker in workers()), default=float("nan"))
    return SparkRun(int(str(report["rows"])), seconds, int(str(report["model_loads"])), cpu_s, peak_mb)


def outputs_of(begun: Begun) -> Float32Array:
    """(rows, W) outputs in the order of the entities' names, as packed for Redis."""
    table = pq.read_table(begun.folder / "scores", columns=["entity", "packed"])
    packed = table["packed"].to_pylist()
    raw = np.frombuffer(b"".join(packed), dtype=np.uint8).reshape(len(packed), -1)
    outputs: Float32Array = np.ascontiguousarray(raw[:, HEAD_BYTES:]).view("<f4")
    return outputs[np.argsort(np.array(table["entity"].to_pylist()))]


def workers(pid: int | None = None) -> list[psutil.Process]:
    """The Python workers that Spark in this process, or that one, has now: it keeps them from job to job."""
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):  # some end while they are looked at
            parent = process.parent()
            # Spark's daemon forks its workers, and all have its words.
            if _is_daemon(process) and parent is not None and _is_daemon(parent):
                found.append(process)
    return found


def _is_daemon(process: psutil.Process) -> bool:
    return any(_DAEMON in word for word in process.cmdline())


def _cpu_s() -> dict[str, float]:
    """Until now, user and system; of workers that have ended, nothing."""
    used = {"driver": time.process_time(), "jvm": 0.0, "workers": 0.0}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            part = "jvm" if process.name() == "java" else "workers" if _is_daemon(process) else None
            if part is not None:
                times = process.cpu_times()
                used[part] += times.user + times.system
    return used


def _peak_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak_kb = next(line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak_kb) / 1024


def _forget_peak(pid: int) -> None:
    """From here on the peak is counted anew. Source: proc(5), clear_refs."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
