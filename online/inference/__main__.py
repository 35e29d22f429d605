"""`python -m online.inference`: the inference node (settings: `INFERENCE_*`), or `profile` of one bundle."""

import argparse
import logging
import sys
from collections.abc import Sequence

from online.inference.node.settings import InferenceSettings
from online.inference.profile.options import ProfileOptions, add_arguments
from online.logs import configure_logs
from schemas.settings import BadSettings, load_settings, settings_help

_SERVE = "run the inference node: what it serves and where it listens is set by INFERENCE_* in the environment"
_PROFILE = (
    "measure how long batches of a bundle take on a device, at eight batch sizes or more; fit "
    "T(b) = tau0 + alpha b; mark the size from which a doubling gains under 10 % throughput; write JSON and PNG"
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m online.inference", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands (serve, if none is given)")
    commands.add_parser(
        "serve",
        help="run the inference node",
        description=_SERVE,
        epilog=settings_help(InferenceSettings),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    profiling = commands.add_parser("profile", help="measure T(b) of a bundle on a device", description=_PROFILE)
    add_arguments(profiling)
    arguments = parser.parse_args(argv)
    if arguments.command == "profile":
        # Each command imports its own half: the node's has no torch, and a bare GPU machine lacks the node's.
        from online.inference.profile.command import run

        return run(ProfileOptions.from_arguments(arguments))
    return _serve()


def _serve() -> int:
    import uvloop

    from online.inference.node.app import Node

    try:
        settings = load_settings(InferenceSettings)
    except BadSettings as error:
        print(f"bad settings: {error}", file=sys.stderr)  # noqa: T201 - logs are not set up before settings
        return 2
    configure_logs("inference-node", settings.log_level)

    async def run() -> int:
        try:
            await Node(settings).run()
        except OSError as error:
            logging.getLogger(__name__).error("cannot listen: %s", error)
            return 1
        return 0

    return uvloop.run(run())


if __name__ == "__main__":
    sys.exit(main())
