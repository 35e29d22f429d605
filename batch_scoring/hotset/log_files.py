"""Which files of the request log can be read; the others are set aside, where nobody reads them, and counted."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from batch_scoring.files import file_system
from schemas.arrow import REQUEST_LOG_VERSION
from schemas.names import requests_hour_path, requests_model_path

LOG = logging.getLogger(__name__)
ASIDE = "requests-aside"
_THREADS = 16
_READ = ("time", "entity", "status", "request_id")
_KNOWN_VERSION = str(REQUEST_LOG_VERSION).encode()
# Arrow's names of the types that a count may have been written as, and Spark's.
_STATUS = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "uint8": "smallint"}
_STATUS |= {"uint16": "int", "uint32": "bigint", "float": "float", "double": "double"}


@dataclass(frozen=True, slots=True)
class Kind:
    """How a file's columns are to be read: Spark's types. `status` is None where the file has no such column.

    `is_nanos`: `time` is an INT64 of nanoseconds, which Spark reads as a number only. `has_ids`: of requests.
    """

    is_nanos: bool = False
    status: str | None = None
    has_ids: bool = False


@dataclass
class LogFiles:
    """`good`: addresses Spark can read, by kind. `aside`: names of those set aside, with the reason.

    `rows`: of the good ones; `unknown_rows`: of those of an unknown schema version, which stay where they are.
    """

    root: str
    good: dict[str, Kind] = field(default_factory=dict)
    aside: dict[str, str] = field(default_factory=dict)
    rows: int = 0
    unknown_rows: int = 0

    def set_aside(self, filesystem: fsspec.AbstractFileSystem, path: str, reason: str) -> None:
        """Moves a file to where nobody reads it."""
        name = path.removeprefix(f"{self.root}/")
        target = f"{self.root}/{ASIDE}/{name}"
        filesystem.makedirs(target.rpartition("/")[0], exist_ok=True)
        filesystem.mv(path, target)
        self.aside[name] = reason
        LOG.warning("set aside %s: %s; it lies in %s now", path, reason, target)


def log_files(data_url: str, model: str, begin: datetime, end: datetime) -> LogFiles:
    """The files of the hours that touch [begin, end), the footer of each looked into; what is no log is moved."""
    filesystem, root = file_system(data_url)
    found = LogFiles(root)
    paths = list(_paths(filesystem, root, model, begin, end))
    with ThreadPoolExecutor(_THREADS) as pool:
        for path, (kind, rows, reason) in zip(paths, pool.map(lambda p: _look(filesystem, p), paths), strict=True):
            if kind is None and rows:
                found.aside[path.removeprefix(f"{root}/")] = reason
                found.unknown_rows += rows
                LOG.warning("%s is not read: %s", path, reason)
            elif kind is None:
                found.set_aside(filesystem, path, reason)
            elif rows:
                found.good[_address(filesystem, data_url, path)] = kind
                found.rows += rows
    return found


def drop_damaged(data_url: str, files: LogFiles) -> bool:
    """Reads every file whole, for when Spark could not, and sets those with damaged pages aside; False: none."""
    filesystem, _ = file_system(data_url)
    damaged = {}
    with ThreadPoolExecutor(_THREADS) as pool:
        faults = pool.map(lambda url: _damage(filesystem, url), files.good)
        damaged = {url: fault for url, fault in zip(files.good, faults, strict=True) if fault}
    for url, fault in damaged.items():
        files.set_aside(filesystem, file_system(url)[1], fault)
        del files.good[url]
    return bool(damaged)


def _address(filesystem: fsspec.AbstractFileSystem, data_url: str, path: str) -> str:
    return str(filesystem.unstrip_protocol(path)) if "://" in data_url else f"file://{path}"


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


def _look(filesystem: fsspec.AbstractFileSystem, path: str) -> tuple[Kind | None, int, str]:
    """How to read the file, and its rows; or why it cannot be read as a log.

    Without a kind but with rows it is a log that a newer program can read.
    """
    try:
        with filesystem.open(path, "rb") as file:
            metadata = pq.read_metadata(file)
            schema = metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as error:
        return None, 0, f"no Parquet: {error}"
    version = (schema.metadata or {}).get(b"hotset.request_log", _KNOWN_VERSION)
    if version != _KNOWN_VERSION and metadata.num_rows:
        return None, metadata.num_rows, f"schema version {version.decode(errors='replace')}: upgrade this program"
    types = {name: _plain(schema.field(name).type) for name in schema.names}
    if missing := [name for name in ("time", "entity") if name not in types]:
        return None, 0, f"no column {', '.join(missing)}"
    if pa.types.is_null(types["entity"]):
        return Kind(), 0, ""  # an hour of requests that named no entity
    if not _is_text(types["entity"]):
        return None, 0, f"column entity is {types['entity']}, not text"
    if not pa.types.is_timestamp(types["time"]):
        return None, 0, f"column time is {types['time']}, not a timestamp"
    status = types.get("status")
    if status is not None and not pa.types.is_null(status) and str(status) not in _STATUS:
        return None, 0, f"column status is {status}, not a number"
    if status is not None and pa.types.is_null(status):
        return Kind(), 0, ""  # no row says that it was answered
    has_ids = "request_id" in types and _is_text(types["request_id"])
    kind = Kind(types["time"].unit == "ns", None if status is None else _STATUS[str(status)], has_ids)
    return kind, metadata.num_rows, ""


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _damage(filesystem: fsspec.AbstractFileSystem, url: str) -> str | None:
    try:
        with filesystem.open(file_system(url)[1], "rb") as file:
            parquet = pq.ParquetFile(file)
            columns = [name for name in _READ if name in parquet.schema_arrow.names]
            for _ in parquet.iter_batches(columns=columns):
                pass
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        return f"damaged: {error}"
    return None
