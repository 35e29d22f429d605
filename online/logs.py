"""Logs of the online processes: one line of JSON a record on standard error, UTC, with the process's name."""

import logging
import os
import sys
from datetime import UTC, datetime

import orjson

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """Everything passed by `extra=` becomes a field of its own."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "process": self._process,
            "pid": os.getpid(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _PLAIN}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode("utf-8", "replace")


def configure_logs(process: str, level: str = "INFO") -> None:
    """Called by `__main__` only. uvicorn's loggers go the same way."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(process))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True
