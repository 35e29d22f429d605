"""Tools for the request log: bring one in, make its many files few, delete what is old.

Exit status: 0; 1 for what may succeed when tried again, such as a full disk; 2 for what cannot be done, with the
reason in words.
"""

import argparse
import logging
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from batch_scoring.requestlog.compact import Compacted, Unfinished, Work, compact_model, one_by_one
from batch_scoring.requestlog.hours import Hour, NotPossible, local_root, models_of
from batch_scoring.requestlog.import_log import BadLog, import_log
from batch_scoring.requestlog.retention import old_days, remove_days
from batch_scoring.settings import BatchSettings
from schemas.names import check_name
from schemas.settings import load_settings

# The choice of hot entities looks back so far, by default.
_HISTORY_DAYS = 28
_MIB = 1 << 20


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m batch_scoring.requestlog",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
    command.add_argument("--time-column", default="time", help="default: %(default)s; without a zone it is UTC")
    command.add_argument("--entity-column", default="entity", help="default: %(default)s; must be text")
    command.set_defaults(run=_import)
    compaction = commands.add_parser(
        "compact",
        help="make the many files of each closed hour few",
        description="Merges the small files of each hour that is over, as a Spark job with a task for each hour."
        " Readers see every row once, at any time; killed in between, it goes on where it stopped. The data root"
        " must be a folder: on a cluster, one that all its machines have under the same path.",
    )
    compaction.add_argument(
        "--here", action="store_true", help="in this process, one hour after the other, without Spark"
    )
    compaction.add_argument("--model", help="default: every model that has a log")
    compaction.add_argument(
        "--closed-minutes",
        type=int,
        default=60,
        help="how long ago an hour must have ended (default: %(default)s)",
    )
    compaction.add_argument("--max-mb", type=int, default=256, help="size of a file, about (default: %(default)s)")
    compaction.set_defaults(run=_compact)
    retention = commands.add_parser(
        "retention",
        help="delete the log of days that are old enough",
        description="Says which days would be deleted, of the log, of the hits compared with live and of the drift"
        " results; with --delete, deletes them.",
    )
    retention.add_argument("--days", type=int, required=True, help="how many days before today are kept")
    retention.add_argument("--model", help="default: every model that has a log")
    retention.add_argument("--delete", action="store_true", help="do it; without, it is only said")
    retention.add_argument("--figures", action="store_true", help="the site forgets its figures of them as well")
    retention.set_defaults(run=_retain)
    for one in (command, compaction, retention):
        one.add_argument("--data-url", help="the data root (default: BATCH_DATA_URL, or .hotset/data)")
    return parser


def _import(given: argparse.Namespace) -> None:
    try:
        rows = import_log(given.file, given.data_url, given.model, given.time_column, given.entity_column)
    except FileNotFoundError:
        raise BadLog(f"there is no file {given.file}") from None
    sys.stdout.write(f"{rows:,} rows imported into the request log of {given.model}\n")


def _models(asked: str | None, root: Path) -> list[str]:
    """The one that was asked for, or all that have a log; that there is none is said."""
    found = [asked] if asked else models_of(root)
    if not found:
        sys.stderr.write(f"no model has a request log under {root}\n")
    return found


def _compact(given: argparse.Namespace) -> None:
    if given.closed_minutes < 0 or given.max_mb < 1:
        raise NotPossible("--closed-minutes must not be negative, and --max-mb at least 1")
    root = local_root(given.data_url)
    for model in _models(given.model, root):
        closed_for = timedelta(minutes=given.closed_minutes)
        spread = one_by_one if given.here else _by_spark
        done = compact_model(root, model, datetime.now(UTC), closed_for, given.max_mb * _MIB, spread)
        sys.stdout.write(
            f"{model}: {done.hours:,} hours compacted, {done.files_before:,} files became {done.files_after:,},"
            f" {done.rows:,} rows merged, {done.aside:,} files set aside\n"
        )


def _by_spark(work: Work, hours: Sequence[Hour]) -> Iterable[Compacted]:
    # Here, since the other commands need no Spark.
    from batch_scoring.session import TaskFailed, run_tasks, spark_session

    with spark_session("hotset-compaction") as spark:
        try:
            return run_tasks(spark, work, hours)
        except TaskFailed as error:
            raise Unfinished(str(error)) from error


def _retain(given: argparse.Namespace) -> None:
    if given.days < 1:
        raise NotPossible("--days must be at least 1")
    root = local_root(given.data_url)
    if given.days < _HISTORY_DAYS:
        sys.stderr.write(f"warning: the choice of hot entities looks at {_HISTORY_DAYS} days, unless you set it\n")
    for model in _models(given.model, root):
        old = old_days(root, model, given.days, datetime.now(UTC))
        for day in old:
            sys.stdout.write(f"{day.folder.relative_to(root)}: {day.files:,} files, {day.size_bytes:,} bytes\n")
        said = f"{len(old):,} days, {sum(day.size_bytes for day in old):,} bytes"
        if given.delete:
            remove_days(root, model, old, with_figures=given.figures)
            sys.stdout.write(f"{model}: {said} deleted\n")
        else:
            sys.stdout.write(f"{model}: {said} would be deleted: say --delete to do it\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0, 1 or 2; why is on standard error."""
    given = _parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    try:
        given.data_url = given.data_url or load_settings(BatchSettings).data_url
        if given.model:
            check_name(given.model, "model")
        given.run(given)
    except (BadLog, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except (OSError, Unfinished) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
