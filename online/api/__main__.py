"""`python -m online.api`: starts the workers and replaces those that die.

The only module here that reads arguments and the environment. `--help` lists the settings, `--openapi` prints the
OpenAPI document.
"""

import argparse
import errno
import fcntl
import os
import socket
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import IO

import orjson
from uvicorn import Config

from online.api.settings import ApiSettings
from online.api.workers import Workers
from online.logs import configure_logs
from schemas.settings import BadSettings, load_settings, settings_help

# Workers of a parent that was killed end within a second or two; the next start waits for their port so long.
_PORT_WAIT_S = 10.0
_HEALTH_TIMEOUT_S = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 after SIGTERM or SIGINT, 2 where settings are wrong, 1 where the port or state is taken."""
    parser = argparse.ArgumentParser(
        prog="python -m online.api",
        description="The prediction endpoint. Settings come from the environment.",
        epilog=settings_help(ApiSettings),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--openapi", action="store_true", help="print the OpenAPI document and exit")
    options = parser.parse_args(argv)
    if options.openapi:
        sys.stdout.buffer.write(openapi_json())
        return 0
    try:
        settings = load_settings(ApiSettings)
    except BadSettings as error:
        print(error, file=sys.stderr)  # noqa: T201 - no log is set up yet
        return 2
    return run(settings)


def run(settings: ApiSettings) -> int:
    configure_logs("api", settings.log_level)
    try:
        lock = _lock_state(settings)
        listener = _listen(settings.host, settings.port)
    except OSError as error:
        print(error, file=sys.stderr)  # noqa: T201 - for whoever started it by hand
        return 1
    _clear_metrics(settings)
    # prometheus-client reads this name when it is imported, which workers do after they inherit it.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(settings.metrics_dir)
    with lock, listener:
        Workers(_config(settings), [listener]).run()
    return 0


def openapi_json() -> bytes:
    """The OpenAPI document, as it is committed."""
    from online.api.app import build_app  # loads the worker's whole code, which the parent does without

    document = build_app(ApiSettings.model_construct(log_level="INFO"), os.getpid()).openapi()
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def _config(settings: ApiSettings) -> Config:
    from online.api.http.protocol import PredictionProtocol
    from online.api.worker import make_app

    return Config(
        partial(make_app, settings, os.getpid()),
        factory=True,
        workers=settings.workers,
        loop="uvloop",
        http=PredictionProtocol,
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=65,
        timeout_graceful_shutdown=settings.drain_s,
        timeout_worker_healthcheck=_HEALTH_TIMEOUT_S,
    )


def _lock_state(settings: ApiSettings) -> IO[str]:
    """Raises OSError where another API uses the same state folder."""
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    file = (settings.state_dir / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise OSError(f"API_STATE_DIR: {settings.state_dir} is used by another API") from None
    return file


def _listen(host: str, port: int) -> socket.socket:
    """Raises OSError where the port stays taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    until_s = time.monotonic() + _PORT_WAIT_S
    while True:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE or time.monotonic() > until_s:
                raise OSError(f"API_PORT: {host}:{port}: {error.strerror}") from None
            time.sleep(0.2)
            continue
        listener.set_inheritable(True)
        return listener


def _clear_metrics(settings: ApiSettings) -> None:
    """Counters begin with the process, as Prometheus expects."""
    settings.metrics_dir.mkdir(parents=True, exist_ok=True)
    for path in settings.metrics_dir.glob("*.db"):
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
