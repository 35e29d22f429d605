"""Looks at the releases of a model and changes which one is active. `list` and `show` only read.

The others say what they would do and ask before they do it; without a terminal they want --yes. Redis and data
root are those of the batch jobs: BATCH_REDIS_URL and BATCH_DATA_URL.

Exit status: 0 done, or nothing to do; 1 Redis or the data root could not be reached, or was lost on the way; 2
refused, with the reason in words, or wrong usage; 3 not confirmed, nothing has changed.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import orjson
from redis import Redis
from redis.exceptions import RedisClusterException, RedisError

from batch_scoring.job import REFUSED, configure_logs
from batch_scoring.releases import plans
from batch_scoring.releases.look import ModelReleases, as_json, look
from batch_scoring.runs import Refused
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect
from schemas.run_folders import models_with_runs
from schemas.settings import BadSettings, load_settings

UNREACHABLE = 1
NOT_CONFIRMED = 3
_HISTORY_SHOWN = 10
_COMMANDS = {
    "list": "every generation with its gates, sizes, and who activated it",
    "show": "one model in full: what is active since when and by whom, what its gates said, the last changes",
    "activate": "make a verified generation live",
    "rollback": "go back to what was live before, or to a version; a second rollback goes forward again",
    "retire": "take out what is beyond BATCH_KEEP_GENERATIONS and BATCH_KEEP_VERSIONS, and delete what is out",
}


class NotConfirmed(Exception):
    """Nobody said yes; nothing has changed."""


class Uncertain(Exception):
    """The connection was lost while the change was made."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m batch_scoring.releases",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, what in _COMMANDS.items():
        one = commands.add_parser(name, help=what, description=what)
        one.add_argument(
            "--model",
            required=name != "list",
            help="its name" if name != "list" else "default: all that have begun a night",
        )
        one.add_argument("--json", action="store_true", help="one JSON document on standard output, errors too")
        if name in ("list", "show"):
            one.add_argument("--history", type=int, default=_HISTORY_SHOWN, help="so many last changes")
            continue
        one.add_argument("--yes", action="store_true", help="do not ask")
        one.add_argument("--by", help="who asks for it, for the history (default: user@host of this process)")
        if name != "retire":
            one.add_argument("--why", default="by hand", help="for the history")
        if name == "activate":
            one.add_argument("--generation", required=True, help="such as 20261128T0200Z-1")
        if name == "rollback":
            one.add_argument(
                "--from", dest="leaving", help="only while this generation is live: such a call may be repeated"
            )
            one.add_argument(
                "--to", metavar="VERSION", help="its newest generation (default: what was live before)"
            )
    return parser


def _look(given: argparse.Namespace, settings: BatchSettings, redis: Redis) -> dict[str, object]:
    models = [given.model] if given.model else models_with_runs(settings.data_url)
    found = [look(redis, settings, model) for model in models]
    if not given.json:
        _print_all(found, given)
    documents = [as_json(one, given.history) for one in found]
    return documents[0] if given.command == "show" else {"models": documents}


def _print_all(found: list[ModelReleases], given: argparse.Namespace) -> None:
    from batch_scoring.releases import tables  # a rollback has no use for rich, nor the time

    for one in found:
        tables.show(one, in_full=given.command == "show", history=given.history)
    if not found:
        sys.stdout.write("no model has begun a night under BATCH_DATA_URL\n")


def _change(given: argparse.Namespace, settings: BatchSettings, redis: Redis) -> dict[str, object]:
    plan = _plan(given, settings, redis)
    for warning in plan.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    result: dict[str, object] = {
        "status": "unchanged" if plan.act is None else "done",
        "command": given.command,
        "model": plan.model,
        "before": _pair(plan.before),
        "after": _pair(plan.after),
        "warnings": plan.warnings,
    }
    if plan.act is None:
        said = plan.words
    else:
        _confirm(plan.words, given.yes)
        done = _act(plan.act)
        if given.command == "retire":
            result["retired"] = done
        said = f"done: {plan.words}"
    if not given.json:
        sys.stdout.write(f"{said}\n")
    return result


def _act(act: Callable[[], object]) -> object:
    """Raises Uncertain where it may have been done all the same."""
    try:
        return act()
    except (RedisError, RedisClusterException, OSError) as error:
        what = f"{type(error).__name__}: {error}"
        raise Uncertain(f"it may or may not have been done ({what}): `show` says what is active now") from error


def _plan(given: argparse.Namespace, settings: BatchSettings, redis: Redis) -> plans.Plan:
    if given.command == "activate":
        return plans.plan_activate(redis, settings, given.model, given.generation, given.why, given.by)
    if given.command == "rollback":
        asked = plans.Back(given.why, given.by, given.leaving, given.to)
        return plans.plan_rollback(redis, settings, given.model, asked)
    return plans.plan_retire(redis, settings, given.model, given.by)


def _confirm(words: str, is_confirmed: bool) -> None:
    """Raises NotConfirmed. Asks on standard error, so that standard output stays the result's."""
    if is_confirmed:
        return
    if not sys.stdin.isatty():
        raise NotConfirmed(f"would {words}; there is no terminal to ask at: confirm with --yes")
    sys.stderr.write(f"{words[0].upper()}{words[1:]}\nGo on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise NotConfirmed("not confirmed: nothing has changed")


def _pair(live: tuple[str, str | None] | None) -> dict[str, object] | None:
    return {"version": live[0], "generation": live[1]} if live else None


def _guarded(work: Callable[[], dict[str, object]]) -> tuple[int, dict[str, object]]:
    """Exit status and the document of `--json`."""
    try:
        return 0, work()
    except NotConfirmed as error:
        return NOT_CONFIRMED, {"status": "not_confirmed", "reason": str(error)}
    except (Refused, BadSettings) as error:
        return REFUSED, {"status": "refused", "reason": str(error)}
    except Uncertain as error:
        return UNREACHABLE, {"status": "uncertain", "reason": str(error)}
    except (RedisError, RedisClusterException) as error:
        what = f"Redis cannot be used{_where()} ({type(error).__name__}: {error})"
        return UNREACHABLE, {"status": "unreachable", "reason": f"{what}: is it up, and BATCH_REDIS_URL right?"}
    except OSError as error:
        what = f"the data root cannot be used ({type(error).__name__}: {error})"
        return UNREACHABLE, {"status": "unreachable", "reason": f"{what}: is BATCH_DATA_URL right?"}


def _where() -> str:
    """Where Redis was looked for, without the password."""
    url = urlsplit(load_settings(BatchSettings).redis_url.get_secret_value())
    return f" at {url.hostname}:{url.port or 6379}" if url.hostname else ""


def main(argv: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(argv)
    configure_logs()

    def work() -> dict[str, object]:
        settings = load_settings(BatchSettings)
        with connect(settings) as redis:
            return (_look if given.command in ("list", "show") else _change)(given, settings, redis)

    status, document = _guarded(work)
    if given.json:
        sys.stdout.buffer.write(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        sys.stdout.flush()
    elif status:
        sys.stderr.write(f"{document['status'].replace('_', ' ')}: {document['reason']}\n")  # type: ignore[attr-defined]
    return status


if __name__ == "__main__":
    raise SystemExit(main())
