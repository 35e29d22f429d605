"""`python -m infra.demo`: the whole job on real flights; see `--help`."""

import argparse
import sys
from collections.abc import Sequence

from infra.airflow.night import NightFailed
from infra.demo.compare import NotComparable
from infra.demo.console import CONSOLE, show_logs
from infra.demo.run import DemoOptions, run_demo
from infra.local.settings import StackSettings
from infra.local.stack import StackError
from schemas.settings import BadSettings, load_settings


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0, 1 where a part failed or a look-up was never answered, 2 for bad settings."""
    parser = argparse.ArgumentParser(prog="python -m infra.demo", description=__doc__)
    parser.add_argument(
        "--factor", type=int, default=10, help="make one look-up in so many (default: %(default)s)"
    )
    parser.add_argument(
        "--replay-s", type=float, default=60, help="press the day into so many seconds (default: %(default)s)"
    )
    parser.add_argument("--small", action="store_true", help="train on less, for a quick check of the whole path")
    given = parser.parse_args(argv)
    if given.factor < 1 or given.replay_s <= 0:
        parser.error("--factor must be at least 1 and --replay-s positive")
    show_logs("infra", "batch_scoring")
    try:
        settings = load_settings(StackSettings)
        outcome = run_demo(
            DemoOptions(settings, factor=given.factor, replay_s=given.replay_s, is_small=given.small)
        )
    except BadSettings as error:
        CONSOLE.print(f"error: {error}", style="red", markup=False)
        return 2
    except (StackError, NightFailed, NotComparable, OSError) as error:
        CONSOLE.print(f"error: {error}", style="red", markup=False)
        return 1
    return 1 if outcome.measured.errors else 0


if __name__ == "__main__":
    sys.exit(main())
