"""`python -m tests.bench.hotset`: a table, then one line of JSON. Progress goes to standard error.

Slots are 5 % of a trace's entities for every way. Exit status: 0, or 130 after Ctrl-C.
"""

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import orjson

from tests.bench.hotset import table
from tests.bench.hotset.measure import measure_all
from tests.bench.hotset.speed import choose_s
from tests.bench.hotset.traces import traces

log = logging.getLogger(__name__)

_ROWS, _ENTITIES = 10_000_000, 1_000_000
_QUICK = 10  # times smaller


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.hotset", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="within a minute: shorter logs, a tenth of the rows")
    parser.add_argument("--only", action="append", metavar="NAME", help="a trace, or `speed`")
    parser.add_argument(
        "--shared", type=Path, default=Path("../shared/data"), help="public traces: ../shared/data"
    )
    parser.add_argument("--seed", type=int, default=1, help="of what is generated and drawn")
    options = parser.parse_args(argv)
    logging.basicConfig(format="%(relativeCreated)6d ms  %(message)s", level=logging.INFO, stream=sys.stderr)
    for name in ("py4j", "matplotlib"):
        logging.getLogger(name).setLevel(logging.WARNING)
    began_s = time.monotonic()
    if not options.shared.is_dir():
        log.warning("%s is not there: its three traces are left out", options.shared)
    try:
        wanted = traces(options.shared, options.quick, options.seed)
        found = measure_all([one for one in wanted if not options.only or one.name in options.only])
        rows = _ROWS // _QUICK if options.quick else _ROWS
        is_timed = not options.only or "speed" in options.only
        speed_s = choose_s(rows, rows * _ENTITIES // _ROWS, options.seed) if is_timed else None
    except KeyboardInterrupt:
        log.error("interrupted")
        return 130
    table.show(found, rows, speed_s)
    document = {
        "traces": found,
        "choose_10m_rows_s": None if options.quick else speed_s,
        "choose_rows": rows,
        "choose_s": speed_s,
        "wall_s": time.monotonic() - began_s,
    }
    sys.stdout.write(orjson.dumps(document).decode() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
