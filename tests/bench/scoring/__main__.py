"""`python -m tests.bench.scoring`: tables, then one line of JSON. Progress goes to standard error.

Exit status: 0, or 1 where Spark's scores differ from the bare loop's or a step failed, 130 after Ctrl-C.
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

from tests.bench.scoring import models, table
from tests.bench.scoring.measure import measure_model, session
from tests.bench.scoring.night import StepFailed, batch_environment
from tests.bench.scoring.plan import FULL, PARTS, QUICK, Plan
from tests.bench.scoring.results import Results
from tests.support.redis_server import RedisServer

log = logging.getLogger(__name__)
_BUILDERS = {models.DEMO: models.demo, models.MLP: models.mlp}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scoring", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="within a minute, and less certain")
    parser.add_argument("--only", action="append", choices=PARTS, metavar="PART", help=" ".join(PARTS))
    options = parser.parse_args(argv)
    plan = QUICK if options.quick else FULL
    plan = plan.only(options.only) if options.only else plan
    logging.basicConfig(format="%(relativeCreated)6d ms  %(message)s", level=logging.INFO, stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # So that what was started is stopped also when a supervisor ends this process.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        results = measure(plan)
    except KeyboardInterrupt:
        log.error("interrupted")
        return 130
    except StepFailed as error:
        log.error("%s", error)
        return 1
    table.show(results)
    print(results.to_json().decode())  # noqa: T201 - the benchmark's answer
    return 1 if results.wrong else 0


def measure(plan: Plan) -> Results:
    began_s, results = time.monotonic(), Results()
    with tempfile.TemporaryDirectory(prefix="hotset-bench-") as name, RedisServer() as redis:
        folder = Path(name)
        with batch_environment(folder, redis.url):
            built = {name: _BUILDERS[name](folder) for name in plan.models}
            log.info("starting Spark")
            with session() as (results.cores, results.start_s):
                results.models = [measure_model(folder, model, results.cores, plan) for model in built.values()]
    results.wall_s = time.monotonic() - began_s
    return results


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
