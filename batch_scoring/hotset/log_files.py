"""Which files of the request log can be read; the others are set aside, where nobody reads them, and counted."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from batch_scoring.files import file_system
from schemas.names import requests_hour_path, requests_model_path

LOG = logging.getLogger(__name__)
ASIDE = "requests-aside"
# Without these a row says nothing about who is hot; logs of any version have them.
_NEEDED = {"time": pa.types.is_timestamp, "entity": pa.types.is_string}


@dataclass(frozen=True, slots=True)
class LogFiles:
    """`good`: addresses Spark can read. `aside`: names of those set aside, with the reason."""

    good: list[str]
    aside: dict[str, str]


def log_files(data_url: str, model: str, begin: datetime, end: datetime) -> LogFiles:
    """The files of the hours that touch [begin, end), each looked into; those that are no log are moved."""
    filesystem, root = file_system(data_url)
    good: list[str] = []
    aside: dict[str, str] = {}
    for path in _paths(filesystem, root, model, begin, end):
        reason = _fault(filesystem, path)
        if reason is None:
            good.append(path if "://" in data_url else f"file://{path}")
            continue
        target = f"{root}/{ASIDE}/{path.removeprefix(f'{root}/')}"
        filesystem.makedirs(target.rpartition("/")[0], exist_ok=True)
        filesystem.mv(path, target)
        aside[path.removeprefix(f"{root}/")] = reason
        LOG.warning("set aside %s: %s; it lies in %s now", path, reason, target)
    return LogFiles(good, aside)


def _paths(
    filesystem: fsspec.AbstractFileSystem, root: str, model: str, begin: datetime, end: datetime
) -> Iterator[str]:
    """Parquet files of the window's hours. Names that begin with `_` or `.` are not finished yet."""
    folder = f"{root}/{requests_model_path(model)}"
    if not filesystem.exists(folder):
        return
    first = f"{root}/{requests_hour_path(model, begin)}"
    last = f"{root}/{requests_hour_path(model, end - timedelta(microseconds=1))}"
    for path in sorted(filesystem.find(folder)):
        hour, _, name = path.rpartition("/")
        if first <= hour <= last and name.endswith(".parquet") and not name.startswith(("_", ".")):
            yield path


def _fault(filesystem: fsspec.AbstractFileSystem, path: str) -> str | None:
    """Why the file cannot be read as a log, or None."""
    try:
        with filesystem.open(path, "rb") as file:
            schema = pq.read_schema(file)
    except (pa.ArrowInvalid, OSError) as error:
        return f"no Parquet: {error}"
    for name, is_type in _NEEDED.items():
        if name not in schema.names:
            return f"no column {name}"
        kind = schema.field(name).type
        if not is_type(kind) and not (name == "entity" and pa.types.is_large_string(kind)):
            return f"column {name} is {kind}"
    return None
