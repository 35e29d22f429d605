"""`python -m tests.bench.planning`: tables, then one line of JSON. Progress goes to standard error.

Exit status: 0, or 1 where an answer was wrong or a simulated mean is above its bound, 130 after Ctrl-C.
"""

import argparse
import logging
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import psutil

from tests.bench.live.bundles import heavy_bundle, known_bundle
from tests.bench.planning import table
from tests.bench.planning.asking import KnownAsking
from tests.bench.planning.bound import compare
from tests.bench.planning.cpu import HeavyAsking, is_pinnable, pinned
from tests.bench.planning.measure import Spare, loaded_tier, measure_points
from tests.bench.planning.plan import FULL, QUICK, Plan
from tests.bench.planning.results import Results

log = logging.getLogger(__name__)

TIER, CPU, BOUND = "tier", "cpu", "bound"
PARTS = (TIER, CPU, BOUND)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.planning", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="within a minute, and less certain")
    parser.add_argument("--only", action="append", choices=PARTS, metavar="PART", help=" ".join(PARTS))
    parser.add_argument("--seed", type=int, default=1, help="of the arrivals and of the random devices")
    options = parser.parse_args(argv)
    logging.basicConfig(format="%(relativeCreated)6d ms  %(message)s", level=logging.INFO, stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    # So that what was started is stopped also when a supervisor ends this process.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        results = measure(QUICK if options.quick else FULL, options.only or PARTS, options.seed)
    except KeyboardInterrupt:
        log.error("interrupted")
        return 130
    table.show(results)
    print(results.to_json().decode())  # noqa: T201 - the benchmark's answer
    return 1 if results.wrong or results.violations else 0


def measure(plan: Plan, parts: Sequence[str], seed: int) -> Results:
    """Each device alone on the machine, and everything it starts stopped before the next."""
    began_s, results = time.monotonic(), Results(busy_before=psutil.cpu_percent(interval=1.0) / 100)
    with tempfile.TemporaryDirectory(prefix="hotset-bench-") as name:
        folder = Path(name)
        if TIER in parts:
            _measure_emulated(folder, plan, seed, results)
        if CPU in parts and plan.cpu:
            _measure_cpu(folder, plan, seed, results)
    if BOUND in parts:
        log.info("simulator against bound: %d devices and rates", plan.triples)
        results.triples = compare(plan.triples, plan.requests, seed)
    results.wall_s = time.monotonic() - began_s
    return results


def _measure_emulated(folder: Path, plan: Plan, seed: int, results: Results) -> None:
    bundle, asking, spare = known_bundle(folder), KnownAsking(), Spare(plan.again_s)
    for place, (time_of_batch, points) in enumerate(plan.devices):
        device = f"emulated:{time_of_batch.tau0_ms:g},{time_of_batch.alpha_ms:g}"
        own = folder / str(place)
        own.mkdir()
        with loaded_tier(own, bundle, device, plan, asking) as (stack, known):
            results.emulated += measure_points(
                device, stack, known, points, plan, asking, seed + 100 * place, spare=spare
            )


def _measure_cpu(folder: Path, plan: Plan, seed: int, results: Results) -> None:
    bundle, own, asking, most_per_s = heavy_bundle(folder), folder / "cpu", HeavyAsking(), plan.cpu_most_per_s
    own.mkdir()
    device = "cpu, pinned" if is_pinnable() else "cpu"
    with loaded_tier(own, bundle, "cpu", plan, asking, most_per_s, pinned) as (stack, known):
        results.cpu = measure_points(device, stack, known, plan.cpu, plan, asking, seed, most_per_s)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
