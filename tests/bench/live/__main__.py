"""`python -m tests.bench.live`: tables, then one line of JSON. Progress goes to standard error.

Exit status: 0, or 1 where an answer was wrong, 2 where the servers of others are not set up, 130 after Ctrl-C.
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

from tests.bench.live import peers, table
from tests.bench.live.asking import Requests
from tests.bench.live.bundles import heavy_bundle, known_bundle
from tests.bench.live.cpu_model import measure_cpu_model
from tests.bench.live.overload import measure_overload
from tests.bench.live.plan import FULL, PARTS, QUICK, Plan
from tests.bench.live.rates import PRODUCT, measure_rate
from tests.bench.live.results import Results
from tests.bench.live.stack import product

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.live", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="within a minute, and less certain")
    parser.add_argument("--only", action="append", choices=PARTS, metavar="PART", help=" ".join(PARTS))
    parser.add_argument("--seed", type=int, default=1, help="of the arrivals")
    options = parser.parse_args(argv)
    plan = QUICK if options.quick else FULL
    plan = plan.only(options.only) if options.only else plan
    logging.basicConfig(format="%(relativeCreated)6d ms  %(message)s", level=logging.INFO, stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    if plan.peers and not peers.is_set_up():
        log.error("the servers of others are not set up: make peers")
        return 2
    # So that what was started is stopped also when a supervisor ends this process.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        results = measure(plan, options.seed)
    except KeyboardInterrupt:
        log.error("interrupted")
        return 130
    table.show(results)
    print(results.to_json().decode())  # noqa: T201 - the benchmark's answer
    return 1 if results.wrong_answers else 0


def measure(plan: Plan, seed: int) -> Results:
    """Each part alone on the machine, and everything it starts stopped before the next."""
    began_s, results, requests = time.monotonic(), Results(), Requests()
    with tempfile.TemporaryDirectory(prefix="hotset-bench-") as name:
        folder = Path(name)
        if plan.runs or plan.has_overload:
            _measure_product(folder, plan, seed, requests, results)
        for peer in peers.ALL:
            if rates := plan.peers.get(peer.name):
                with peers.serving(peer, folder) as server:
                    results.peers += [
                        measure_rate(peer.name, server, requests, plan, rate, seed) for rate in rates
                    ]
        if plan.cpu_rounds:
            results.cpu = measure_cpu_model(folder, heavy_bundle(folder), plan.cpu_rounds, plan.cpu_s)
    results.wall_s = time.monotonic() - began_s
    return results


def _measure_product(folder: Path, plan: Plan, seed: int, requests: Requests, results: Results) -> None:
    log.info("starting the two tiers")
    with product(folder, known_bundle(folder)) as stack:
        for rate, often in plan.runs:
            results.product += [
                measure_rate(PRODUCT, stack.server, requests, plan, rate, seed + again, stack.device_counts)
                for again in range(often)
            ]
        if plan.has_overload:
            results.overload = measure_overload(stack.server, requests, plan, seed)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
