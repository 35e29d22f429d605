"""`python -m tests.bench.hits`: tables, then one line of JSON. Progress goes to standard error.

Exit status: 0, or 1 where an answer was wrong or an error, 130 after Ctrl-C. Errors of the other ways to a hit are
shown, and are no failure.
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

from tests.bench.hits import contenders, table
from tests.bench.hits.asking import Draw
from tests.bench.hits.contenders import HOTSET_L1
from tests.bench.hits.measure import Machine
from tests.bench.hits.memory import measure_memory
from tests.bench.hits.plan import CLOSED, FULL, PARTS, QUICK, Load, Plan
from tests.bench.hits.results import Results, count
from tests.bench.hits.rounds import one_turn, run_rounds

log = logging.getLogger(__name__)

_SETTLING_SEED = 1000  # other entities and order than in any round


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.hits", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="within a minute, and less certain")
    parser.add_argument("--only", action="append", choices=PARTS, metavar="PART", help=" ".join(PARTS))
    parser.add_argument("--seed", type=int, default=1, help="of the entities drawn and of the arrivals")
    options = parser.parse_args(argv)
    plan = QUICK if options.quick else FULL
    plan = plan.only(options.only) if options.only else plan
    logging.basicConfig(format="%(relativeCreated)6d ms  %(message)s", level=logging.INFO, stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    # So that what was started is stopped also when a supervisor ends this process.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        results = measure(plan, options.seed)
    except KeyboardInterrupt:
        log.error("interrupted")
        return 130
    table.show(results)
    print(results.to_json().decode())  # noqa: T201 - the benchmark's answer
    return 0 if results.is_good else 1


def measure(plan: Plan, seed: int) -> Results:
    began_s, results = time.monotonic(), Results()
    with tempfile.TemporaryDirectory(prefix="hotset-bench-") as name:
        if plan.loads or plan.feast:
            _measure_loads(Path(name), plan, seed, results)
        if plan.memory_entities:
            results.memory = measure_memory(plan.memory_entities, plan.wide_entities)
    results.wall_s = time.monotonic() - began_s
    return results


def _measure_loads(folder: Path, plan: Plan, seed: int, results: Results) -> None:
    log.info("loading entities and starting servers")
    with contenders.running(folder) as stack:
        machine = Machine(Draw(seed), stack.redis_pid)
        settling = Load("settling", CLOSED, 16, (HOTSET_L1,), 1, 0.0, plan.settle_s)
        results.settling.append(one_turn(machine, stack.by_name[HOTSET_L1], settling, seed + _SETTLING_SEED))
        for load in plan.loads:
            results.rounds[load.part] = run_rounds(machine, stack.by_name, load, seed)
        results.counted = count(stack)
        if plan.feast:
            _measure_feast(folder / "feast", plan, seed, machine, stack.redis_url, results)


def _measure_feast(
    folder: Path, plan: Plan, seed: int, machine: Machine, redis_url: str, results: Results
) -> None:
    """The whole run is not lost where Feast is missing or does not start: nothing is judged by it."""
    if not contenders.has_feast():
        results.without_feast = "Feast was not measured: `make feast` sets it up."
        return
    log.info("starting Feast")
    try:
        with contenders.feast(folder, redis_url) as feast:
            for kind, size in plan.feast:
                load = Load(f"{kind}{size}", kind, size, (feast.name,), 1, 1.0, plan.feast_s)
                results.feast[load.part] = one_turn(machine, feast, load, seed)
    except AssertionError as error:
        log.error("Feast: %s", error)
        results.without_feast = "Feast was not measured: it did not start; the log above says why."


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
