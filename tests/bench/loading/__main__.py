"""`python -m tests.bench.loading`: tables, then one line of JSON. Progress goes to standard error.

Exit status: 0, or 1 where a load was not verified or a look-up was wrong or an error, 2 where there is no
redis-cli or it failed, 130 after Ctrl-C.
"""

import argparse
import logging
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from redis import Redis

from tests.bench.loading import memory, nights, pipe, table
from tests.bench.loading.load import load, measure_load
from tests.bench.loading.lookups import serving
from tests.bench.loading.pipe import PipeFailed
from tests.bench.loading.plan import FULL, PARTS, QUICK, Plan
from tests.bench.loading.results import Results
from tests.bench.loading.turns import measure_turns
from tests.bench.scoring.measure import session
from tests.bench.scoring.night import Begun, StepFailed, batch_environment
from tests.support.redis_server import RedisServer

log = logging.getLogger(__name__)

_FIRST_ENTITIES = 5000


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.loading", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="within a minute, and less certain")
    parser.add_argument("--only", action="append", choices=PARTS, metavar="PART", help=" ".join(PARTS))
    parser.add_argument("--seed", type=int, default=1, help="of the entities looked up and of the arrivals")
    options = parser.parse_args(argv)
    plan = QUICK if options.quick else FULL
    plan = plan.only(options.only) if options.only else plan
    logging.basicConfig(format="%(relativeCreated)6d ms  %(message)s", level=logging.INFO, stream=sys.stderr)
    for name in ("httpx", "py4j"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # So that what was started is stopped also when a supervisor ends this process.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        pipe.client()
        results = measure(plan, options.seed)
    except KeyboardInterrupt:
        log.error("interrupted")
        return 130
    except (PipeFailed, StepFailed) as error:
        log.error("%s", error)
        return 2 if isinstance(error, PipeFailed) else 1
    table.show(results)
    print(results.to_json().decode())  # noqa: T201 - the benchmark's answer
    return 1 if results.wrong or results.errors else 0


def measure(plan: Plan, seed: int) -> Results:
    began_s, results = time.monotonic(), Results()
    with tempfile.TemporaryDirectory(prefix="hotset-bench-") as name, RedisServer() as server:
        folder = Path(name)
        data = folder / "data"
        made = nights.bundle(folder)
        with batch_environment(folder, server.url):
            log.info("starting Spark")
            with session() as (_, results.start_s):
                results.first_s = sum(load(nights.scored(made, data, 1, _FIRST_ENTITIES)))
                live = nights.scored(made, data, 2, plan.entities)
                results.loads = measure_load(folder, server, live, plan.rounds)
                if plan.lookup_s:
                    if not plan.rounds:
                        load(live)
                    nights.route(server.url, made, live)
                    other = nights.scored(made, data, 3, plan.other_entities)
                    _measure_lookups(folder, server, live, other, plan, seed, results)
            for number, entities in enumerate(plan.memory_entities, start=4):
                log.info("writing score files of %d entities", entities)
                begun = nights.scored(made, data, number, entities)
                with Redis.from_url(server.url) as redis:
                    redis.execute_command("FLUSHALL", "SYNC")
                results.memory.append(memory.measure(begun))
                shutil.rmtree(begun.folder)
    results.wall_s = time.monotonic() - began_s
    return results


def _measure_lookups(
    folder: Path, server: RedisServer, live: Begun, other: Begun, plan: Plan, seed: int, results: Results
) -> None:
    results.throttle_per_s = plan.throttle_per_s
    log.info("starting the API")
    with (
        batch_environment(folder, server.url, max_entities_per_s=str(plan.throttle_per_s)),
        Redis.from_url(server.url) as redis,
        serving(folder, server.url, live.model, live) as lookups,
    ):
        results.lookups = measure_turns(lookups, redis, other, plan, seed)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
