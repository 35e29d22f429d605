"""`python -m online.planning QUESTION`: capacity on paper before anything is provisioned."""

import argparse
import sys
from collections.abc import Sequence
from typing import Protocol, cast

from online.planning.answer import Answer
from online.planning.checks import OutOfRange
from online.planning.commands import batch, plan, queues, size, strategy
from online.planning.commands.blend import Cascade, Lookup
from online.planning.commands.memory import Memory, Pipeline
from online.planning.commands.money import Economics, Serverless
from online.planning.profile_file import BadFile
from online.planning.rendering import show, to_json, to_markdown

EXIT_BAD_INPUT = 2
_WHAT = "Capacity on paper before anything is provisioned. Each question has --help with an example."


class Command(Protocol):
    """A module or class for each question."""

    NAME: str
    HELP: str
    EPILOG: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def answer(self, arguments: argparse.Namespace) -> Answer: ...


COMMANDS = cast(
    Sequence[Command],
    (plan, size, batch, queues, Lookup, Cascade, Serverless, Memory, Pipeline, strategy, Economics),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0, or 2 with the field and the allowed range on standard error."""
    arguments = _parser().parse_args(argv)
    try:
        answer = arguments.command.answer(arguments)
    except (OutOfRange, BadFile) as error:
        print(f"planning: {error}", file=sys.stderr)  # noqa: T201 - this command's output
        return EXIT_BAD_INPUT
    if arguments.json:
        print(to_json(answer))  # noqa: T201
    elif arguments.markdown:
        print(to_markdown(answer))  # noqa: T201
    else:
        show(answer, sys.stdout)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m online.planning", description=_WHAT)
    questions = parser.add_subparsers(metavar="QUESTION", title="questions", required=True)
    for command in COMMANDS:
        one = questions.add_parser(
            command.NAME,
            help=command.HELP,
            description=command.HELP[:1].upper() + command.HELP[1:] + ".",
            epilog=command.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        how = one.add_mutually_exclusive_group()
        how.add_argument("--json", action="store_true", help="one document instead of tables")
        how.add_argument("--markdown", action="store_true", help="tables to paste")
        command.add_arguments(one)
        one.set_defaults(command=command)
    return parser


if __name__ == "__main__":
    sys.exit(main())
