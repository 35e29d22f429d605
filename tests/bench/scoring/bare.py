"""The bare loop on all cores: one process and one thread a core, each with its share of the files."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from schemas.codec import Float32Array
from tests.support.api_process import ROOT


class BareFailed(Exception):
    """A process of the loop ended; the screen has its error."""


@dataclass(frozen=True)
class BareRun:
    """`seconds`: of the slowest core; `cpu_s`: of all. `outputs` in the order of the entities' names."""

    rows: int
    seconds: float
    cpu_s: float
    outputs: Float32Array

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.seconds


class BareLoop:
    """Processes with the model loaded, that wait."""

    def __init__(self, processes: "Sequence[subprocess.Popen[str]]", scratch: Path) -> None:
        self._processes, self._scratch = processes, scratch

    def run(self, features: Path) -> BareRun:
        outs = [self._scratch / f"bare-{place}.npz" for place in range(len(self._processes))]
        for process, out in zip(self._processes, outs, strict=True):
            assert process.stdin is not None
            process.stdin.write(f"{features}\t{out}\n")
            process.stdin.flush()
        said = [read_line(process) for process in self._processes]
        entities, outputs = [], []
        for out in outs:
            with np.load(out) as file:
                entities.append(file["entities"])
                outputs.append(file["outputs"])
            out.unlink()
        order = np.argsort(np.concatenate(entities))
        seconds = max(float(one["seconds"]) for one in said)
        rows, cpu_s = sum(int(one["rows"]) for one in said), sum(float(one["cpu_s"]) for one in said)
        return BareRun(rows, seconds, cpu_s, np.concatenate(outputs)[order])


@contextmanager
def bare_loop(bundle: Path, cores: int, scratch: Path) -> Iterator[BareLoop]:
    words = [sys.executable, "-m", "tests.bench.scoring.bare_loop", str(bundle)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen(
            [*words, str(share), str(cores)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
        for share in range(cores)
    ]
    try:
        for process in processes:
            read_line(process)
        yield BareLoop(processes, scratch)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def read_line(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise BareFailed(f"the bare loop ended with status {process.wait()}")
    said: dict[str, Any] = json.loads(line)
    return said
