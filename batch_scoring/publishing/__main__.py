"""The steps of a night that need no Spark. What an operator does by hand is `batch_scoring.releases`.

Exit status: 0; 1 for what may succeed when tried again; 2 for what was refused, with the reason in words.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from batch_scoring.job import configure_logs, guarded, run_check
from batch_scoring.publishing import activate, begin, gate, load, retire, verify
from batch_scoring.publishing.targets import Asked
from batch_scoring.settings import BatchSettings
from schemas.settings import load_settings


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m batch_scoring.publishing", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    first = commands.add_parser("begin", help="fix what a night works on; its last line of output is JSON")
    first.add_argument("--model", required=True, help="whose night it is")
    first.add_argument("--bundle", help="folder or fsspec URL of a version's bundle (default: what is in service)")
    first.add_argument("--digest", help="sha256 of its manifest (default: of the manifest as it lies there)")
    first.add_argument("--version", help="refuse a bundle of any other version")
    first.add_argument("--first-bundle", help="taken only where nothing is in service yet")
    first.add_argument("--first-digest", help="sha256 of its manifest")
    first.add_argument("--delta", action="store_true", help="only the entities whose features have changed")
    first.add_argument("--as-of", required=True, help="the moment the night knows, such as 2026-11-28T02:00:00Z")
    first.add_argument("--run-key", required=True, help="the same key finds the same run again")
    for name, what in (
        ("load", "load the run's version on every replica of the live tier"),
        ("verify", "compare what Redis holds with what was scored"),
        ("gate", "say whether the generation may go live"),
        ("activate", "make it live"),
        ("retire", "delete what nobody is routed to any more"),
    ):
        step = commands.add_parser(name, help=what)
        step.add_argument("--run", required=True, help="address of the run's run.json")
        step.add_argument("--token", type=int, required=name == "activate", help="the run token that `begin` gave")
    return parser


def _begin(given: argparse.Namespace) -> int:
    asked = Asked(
        model=given.model,
        as_of=given.as_of,
        run_key=given.run_key,
        bundle=given.bundle,
        digest=given.digest,
        first_bundle=given.first_bundle,
        first_digest=given.first_digest,
        is_delta=given.delta,
        version=given.version,
    )
    sys.stdout.write(json.dumps(begin.begin(load_settings(BatchSettings), asked)) + "\n")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(argv)
    configure_logs()
    steps = {"load": load.load, "verify": verify.verify, "gate": gate.gate, "retire": retire.retire}
    if given.command in steps:
        return run_check(given.command, steps[given.command], given.run)
    if given.command == "activate":
        token = given.token
        return run_check(given.command, lambda run, settings: activate.activate(run, settings, token), given.run)
    return guarded(lambda: _begin(given))


if __name__ == "__main__":
    raise SystemExit(main())
