"""`python -m infra.local up|down|status|restart NAME|logs NAME`: the stack of this folder."""

import argparse
import os
import sys
from collections.abc import Sequence

from infra.local.programs import process_environment
from infra.local.settings import LOOPBACK, StackSettings
from infra.local.stack import LocalStack, StackError
from schemas.settings import BadSettings, load_settings

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 1 a process is not ready, 2 wrong use or wrong settings."""
    arguments = _parser().parse_args(argv)
    try:
        settings = load_settings(StackSettings)
    except BadSettings as error:
        return _fail(f"settings: {error}", 2)
    stack = LocalStack(settings, process_environment(settings), say=_say)
    name = getattr(arguments, "name", None)
    if name is not None and name not in stack.programs:
        return _fail(f"no process is called {name!r}; there are {', '.join(stack.programs)}", 2)
    try:
        return _run(arguments.command, stack, name)
    except (StackError, RuntimeError) as error:
        return _fail(str(error), 1)
    except OSError as error:
        return _fail(f"the stack does not run ({error}); start it with `make up`", 1)
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(command: str, stack: LocalStack, name: str | None) -> int:
    match command:
        case "up":
            stack.start()
            _say("")
            return _status(stack)
        case "down":
            stack.stop()
            _say("stopped")
        case "restart":
            stack.restart(str(name))
        case "logs":
            path = stack.log_path(str(name))
            os.execvp("tail", ["tail", "-n", "50", "-F", str(path)])
        case "status":
            return _status(stack)
    return 0


def _status(stack: LocalStack) -> int:
    """Prints a line for each process; 0 where all are ready."""
    states = stack.states()
    for name, word in states.items():
        address = stack.settings.url(name) if name != "valkey" else f"{LOOPBACK}:{stack.settings.port('redis')}"
        _say(f"{name:10} {word:9} pid {stack.pid(name) or '-':<8} {address:24} {stack.log_path(name)}")
    return 0 if all(word == "ready" for word in states.values()) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.local", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="start what does not run, wait until each process is ready")
    commands.add_parser("down", help="stop everything, also after a crash of the supervisor")
    commands.add_parser("status", help="a line for each process")
    for command, text in (("restart", "stop and start one process"), ("logs", "follow the log of one process")):
        commands.add_parser(command, help=text).add_argument("name", help="as `status` names it")
    return parser


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - this command's output


def _fail(text: str, status: int) -> int:
    print(text, file=sys.stderr)  # noqa: T201
    return status


if __name__ == "__main__":
    sys.exit(main())
