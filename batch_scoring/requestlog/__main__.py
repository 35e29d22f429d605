"""`python -m batch_scoring.requestlog import`: see `--help`."""

import argparse
import sys
from collections.abc import Sequence

from batch_scoring.requestlog.import_log import BadLog, import_log
from schemas.names import check_name


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0, or 2 where the file cannot be imported; why is on standard error."""
    parser = argparse.ArgumentParser(
        prog="python -m batch_scoring.requestlog", description="Tools for the request log."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "import",
        help="bring in a log of another system",
        description="Adds the (time, entity) rows of a Parquet or CSV file to a model's request log,"
        " from which the next night chooses what to precompute.",
    )
    command.add_argument("file", help="file or fsspec URL, Parquet or .csv")
    command.add_argument("--model", required=True, help="whose log it becomes")
    command.add_argument("--data-url", default=".hotset/data", help="the data root (default: %(default)s)")
    command.add_argument("--time-column", default="time", help="default: %(default)s; without a zone it is UTC")
    command.add_argument("--entity-column", default="entity", help="default: %(default)s; must be text")
    given = parser.parse_args(argv)
    try:
        check_name(given.model, "model")
        rows = import_log(given.file, given.data_url, given.model, given.time_column, given.entity_column)
    except (BadLog, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(f"{rows:,} rows imported into the request log of {given.model}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
