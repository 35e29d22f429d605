"""`python -m online.monitor`: the analysts' site, a process of its own. With `explain ID`: one request's story."""

import argparse
import os
import sys
from collections.abc import Sequence

from online.logs import configure_logs
from online.monitor.settings import MonitorSettings
from schemas.settings import BadSettings, load_settings, settings_help


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until SIGTERM or SIGINT. Exit status 2: the settings are wrong. `explain` has statuses of its own."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] != ["explain"]:
        _parser().parse_args(words)  # takes none but --help
    configure_logs("monitor")
    try:
        settings = load_settings(MonitorSettings)
    except BadSettings as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if words[:1] == ["explain"]:
        from online.monitor.explain.command import (
            main as explain,
        )  # without the site, which takes a second to load

        return explain(words[1:], settings)
    return _serve(settings)


def _parser() -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog="python -m online.monitor",
        usage="%(prog)s [-h] | explain [-h] REQUEST_ID ...",
        description="The analysts' site, until SIGTERM; or, with `explain`, the story of one request.",
        epilog=settings_help(MonitorSettings),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _serve(settings: MonitorSettings) -> int:
    import uvicorn

    from online.monitor.app import create_app

    os.nice(settings.niceness)
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
