"""The hot set: the night's `select`, and `choose` and `backtest` to try it on any log."""

import sys
from collections.abc import Sequence

from batch_scoring.hotset.cli import main as try_on_a_log
from batch_scoring.hotset.nightly.select import select
from batch_scoring.job import run_step, step_parser

STEP = "select"
COMMANDS = ("choose", "backtest")


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    if words and words[0] in COMMANDS:
        return try_on_a_log(words)
    parser = step_parser("batch_scoring.hotset", "The step `select` of a night: chooses what is precomputed.")
    parser.usage = "%(prog)s [-h] --run RUN | choose ... | backtest ..."
    parser.epilog = "To try it on any log: `%(prog)s choose --help` and `%(prog)s backtest --help`."
    return run_step(STEP, select, parser.parse_args(words).run)


if __name__ == "__main__":
    raise SystemExit(main())
