"""`python -m online.monitor`: the analysts' site, a process of its own."""

import os
import sys

import uvicorn

from online.logs import configure_logs
from online.monitor.app import create_app
from online.monitor.settings import MonitorSettings
from schemas.settings import BadSettings, load_settings


def main() -> int:
    """Serves until SIGTERM or SIGINT. Exit status 2: the settings are wrong."""
    configure_logs("monitor")
    try:
        settings = load_settings(MonitorSettings)
    except BadSettings as error:
        sys.stderr.write(f"{error}\n")
        return 2
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
