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
    return run_step(STEP, select, step_parser(STEP, __doc__ or "").parse_args(argv).run)


if __name__ == "__main__":
    raise SystemExit(main())
