"""The steps of a night that need no Spark, and what an operator does by hand.

Exit status: 0; 1 for what may succeed when tried again; 2 for what was refused, with the reason in words.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from rich.console import Console

from batch_scoring.job import configure_logs, guarded, run_check
from batch_scoring.publishing import activate, begin, gate, retire, verify
from batch_scoring.publishing.document import read_document
from batch_scoring.publishing.status import generations_table, history_table
from batch_scoring.runs import Refused
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect
from schemas.settings import load_settings


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m batch_scoring.publishing", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    first = commands.add_parser("begin", help="fix what a night works on; its last line of output is JSON")
    first.add_argument("--model", required=True)
    first.add_argument("--bundle", required=True, help="folder or fsspec URL of the model bundle")
    first.add_argument("--as-of", required=True, help="the moment the night knows, such as 2026-11-28T02:00:00Z")
    first.add_argument("--run-key", required=True, help="the same key finds the same run again")
    first.add_argument(
        "--digest", help="sha256 of the bundle's manifest (default: of the manifest as it lies there)"
    )
    for name, what in (
        ("verify", "compare what Redis holds with what was scored"),
        ("gate", "say whether the generation may go live"),
        ("activate", "make it live"),
        ("retire", "delete what nobody is routed to any more"),
    ):
        step = commands.add_parser(name, help=what)
        step.add_argument("--run", required=True, help="address of the run's run.json")
        step.add_argument("--token", type=int, required=name == "activate", help="the run token that `begin` gave")
    back = commands.add_parser("rollback", help="go back to what was live before")
    back.add_argument("--model", required=True)
    back.add_argument("--why", default="by hand", help="for the history")
    status = commands.add_parser("status", help="what is live, and the last changes")
    status.add_argument("--model", required=True)
    status.add_argument("--json", action="store_true", help="the routes document itself")
    return parser


def _begin(given: argparse.Namespace) -> int:
    settings = load_settings(BatchSettings)
    begun = begin.begin(settings, given.model, given.bundle, given.as_of, given.run_key, given.digest)
    sys.stdout.write(json.dumps(begun) + "\n")
    return 0


def _rollback(given: argparse.Namespace) -> int:
    activate.rollback(load_settings(BatchSettings), given.model, given.why)
    return 0


def _status(given: argparse.Namespace) -> int:
    with connect(load_settings(BatchSettings)) as redis:
        document = read_document(redis, given.model)
        if document is None:
            raise Refused(f"{given.model} has no routes document: no night has been activated yet")
        if given.json:
            sys.stdout.write(document.model_dump_json(indent=1) + "\n")
        else:
            console = Console()
            console.print(generations_table(document))
            console.print(history_table(redis, given.model))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(argv)
    configure_logs()
    steps = {"verify": verify.verify, "gate": gate.gate, "retire": retire.retire}
    if given.command in steps:
        return run_check(given.command, steps[given.command], given.run)
    if given.command == "activate":
        token = given.token
        return run_check(given.command, lambda run, settings: activate.activate(run, settings, token), given.run)
    return guarded(lambda: {"begin": _begin, "rollback": _rollback, "status": _status}[given.command](given))


if __name__ == "__main__":
    raise SystemExit(main())
