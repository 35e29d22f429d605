"""A model that keeps a core busy: rows a second of the tier, saturated by its wire, beside a bare torch loop.

Both are processes that wait while the other is measured; they take turns, so that a machine that slows down slows
both.
"""

import asyncio
import json
import logging
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from schemas.bundle import Bundle
from tests.bench.live.usage import CpuMeter
from tests.support.api_process import ROOT
from tests.support.inference import NodeProcess, address_of

log = logging.getLogger(__name__)

_END_S = 10.0


@dataclass(frozen=True)
class CpuResult:
    """Medians over the rounds. `wrong`: rows whose answer is not the bare loop's."""

    bare_rows_per_s: float
    tier_rows_per_s: float
    tier_over_bare: float
    bare_batch_ms: float
    tier_batch_ms: float
    tier_batch_rows: float
    failures: int
    wrong: int
    cpu_shares: dict[str, float]


class _Worker:
    """A process that is told how long to run, line by line, and answers each with a line of JSON."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    @classmethod
    @contextmanager
    def start(cls, module: str, *words: str) -> Iterator["_Worker"]:
        command = [sys.executable, "-m", f"tests.bench.live.{module}", *words]
        # As the node does it for its workers: OpenMP counts cores before torch can be told otherwise.
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # ended here, not by a Ctrl-C in the terminal
        )
        try:
            yield cls(process)
        finally:
            process.kill()
            process.communicate(timeout=_END_S)

    def run(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n".encode())
        self._process.stdin.flush()
        return self.read()

    def read(self) -> dict[str, Any]:
        """Raises JSONDecodeError where the process has ended."""
        assert self._process.stdout is not None
        document: dict[str, Any] = json.loads(self._process.stdout.readline())
        return document


def measure_cpu_model(folder: Path, bundle: Bundle, rounds: int, seconds: float) -> CpuResult:
    log.info("cpu model: %d turns of %g s each, bare loop and tier", rounds, seconds)
    settings = {"device": "cpu", "threads": 1}
    with (
        _Worker.start("bare_loop", str(bundle.folder)) as bare,
        NodeProcess.run(folder / "bundles", [address_of(bundle)], [bundle.folder], **settings) as node,
    ):
        (address,) = asyncio.run(node.ready(bundle.digest))
        with _Worker.start("closed_loop", address, bundle.digest) as tier:
            expected = np.array(bare.read()["expected"])
            tier.read()
            bare.run(seconds / 4)
            tier.run(seconds / 4)
            with CpuMeter() as cpu:
                turns = [(bare.run(seconds), tier.run(seconds)) for _ in range(rounds)]
    result = cpu_result(turns, expected, cpu.shares)
    log.info(
        "cpu model: %.0f rows/s beside %.0f in a bare loop: %.3f",
        *(result.tier_rows_per_s, result.bare_rows_per_s, result.tier_over_bare),
    )
    return result


def cpu_result(
    turns: Sequence[tuple[dict[str, Any], dict[str, Any]]], expected: np.ndarray, cpu_shares: dict[str, float]
) -> CpuResult:
    """From what bare loop and tier said in each turn. `expected`: by place, what the bare loop computed."""

    def median(who: int, name: str) -> float:
        return statistics.median(turn[who][name] for turn in turns)

    return CpuResult(
        bare_rows_per_s=median(0, "rows_per_s"),
        tier_rows_per_s=median(1, "rows_per_s"),
        tier_over_bare=statistics.median(tier["rows_per_s"] / bare["rows_per_s"] for bare, tier in turns),
        bare_batch_ms=median(0, "batch_ms"),
        tier_batch_ms=median(1, "batch_ms"),
        tier_batch_rows=median(1, "batch_rows"),
        failures=turns[-1][1]["failures"],
        wrong=sum(_wrong(tier, expected) for _, tier in turns),
        cpu_shares=cpu_shares,
    )


def _wrong(tier: dict[str, Any], expected: np.ndarray) -> int:
    wanted = expected[tier["places"]]
    return int((~np.isclose(tier["values"], wanted, rtol=1e-4, atol=1e-4)).sum())
