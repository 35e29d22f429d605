"""Figures kept on disk, so that a site that starts again reads only what the log got meanwhile.

A file a UTC day, `date=D.figures`: the counts of each part, and the log files it was folded from, with what they
looked like. It begins with a line of JSON (`version`; `of`, which log and which way of counting; `sha256` and the
lengths of what follows), then has Arrow tables. It appears whole or not at all; one that is damaged, or of another
way of counting, is as good as absent. Rows, entities and inputs are never in it.
"""

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from online.monitor.requestlog import sql
from online.monitor.requestlog.counts import BINS, MEASURED
from online.monitor.requestlog.files import LogFile
from online.monitor.requestlog.kinds import SOURCES, Kind, Kinds
from online.monitor.requestlog.rows import Latencies, Part, Requests, joined
from schemas.whole_files import write_whole

STORED_VERSION = 1
_SUFFIX = ".figures"
_TABLES = ("kinds", "parts", "files", "requests", "latencies")
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")
_DAMAGED = (OSError, ValueError, KeyError, TypeError, IndexError, pa.ArrowException)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A part, the files that it was folded from, and how long the slots of its latencies are."""

    files: tuple[LogFile, ...]
    slot_minutes: int
    part: Part


class StoredDays:
    """The folder of one model's figures. Args: log: tells the log apart from others, such as its address."""

    def __init__(self, folder: Path, log: str) -> None:
        self._folder = folder
        counted = (sql.FOLD_MINUTES, sql.FOLD_LATENCIES, SOURCES, MEASURED, BINS, sql.CONFIDENCE_BINS)
        self._of = hashlib.sha256(repr((log, counted)).encode()).hexdigest()

    def load(self, kinds: Kinds) -> Iterator[StoredPart]:
        """All that can be read. Args: kinds: get those of the parts."""
        for path in sorted(self._folder.glob(f"date=*{_SUFFIX}")):
            try:
                yield from _decoded(path.read_bytes(), self._of, kinds)
            except _DAMAGED as error:
                said = {"path": str(path), "error": f"{type(error).__name__}: {error}"[:200]}
                logger.warning("kept figures cannot be used, and are worked out again", extra=said)

    def save(self, day: int, parts: Sequence[StoredPart], kinds: Sequence[Kind]) -> None:
        """In place of what was kept of the day (since the epoch); nothing is kept of no parts. Raises OSError."""
        path = self._folder / f"date={datetime.fromtimestamp(day * 86_400, UTC):%Y-%m-%d}{_SUFFIX}"
        if not parts:
            path.unlink(missing_ok=True)
            return
        write_whole(path, _encoded(parts, kinds, self._of), is_durable=True)


def _encoded(parts: Sequence[StoredPart], kinds: Sequence[Kind], of: str) -> bytes:
    requests = joined([one.part.requests for one in parts])
    latencies = joined([one.part.latencies for one in parts])
    used, kind = np.unique(requests.kind, return_inverse=True)
    files = [(place, file) for place, one in enumerate(parts) for file in one.files]
    tables = {
        "kinds": pa.Table.from_pylist(
            [kinds[number]._asdict() for number in used.tolist()],
            pa.schema([(name, pa.int32() if name == "status" else pa.string()) for name in Kind._fields]),
        ),
        "parts": pa.table({
            "slot": [one.slot_minutes for one in parts],
            "requests": [len(one.part.requests.minute) for one in parts],
            "latencies": [len(one.part.latencies.minute) for one in parts],
        }),
        "files": pa.table({
            "part": [place for place, _ in files],
            "path": [file.path for _, file in files],
            "hour": [file.hour for _, file in files],
            "signature": [orjson.dumps(file.signature) for _, file in files],
        }),
        "requests": pa.table({
            "minute": requests.minute,
            "kind": kind.astype(np.int32),
            "requests": requests.requests,
            "newest_us": requests.newest_us,
        }),
        "latencies": pa.table({
            "minute": latencies.minute, "cell": latencies.cell, "answers": latencies.answers,
        }),
    }  # fmt: skip
    bodies = [_to_bytes(tables[name]) for name in _TABLES]
    body = b"".join(bodies)
    head = {
        "version": STORED_VERSION,
        "of": of,
        "sha256": hashlib.sha256(body).hexdigest(),
        "lengths": dict(zip(_TABLES, map(len, bodies), strict=True)),
    }
    return orjson.dumps(head) + b"\n" + body


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _decoded(raw: bytes, of: str, kinds: Kinds) -> list[StoredPart]:
    """Raises one of `_DAMAGED`, before anything is added to the kinds."""
    head, _, body = raw.partition(b"\n")
    said = orjson.loads(head)
    if said["version"] != STORED_VERSION or said["of"] != of:
        raise ValueError("of another log, or another way of counting")
    if hashlib.sha256(body).hexdigest() != said["sha256"]:
        raise ValueError("damaged")
    tables = _tables(body, said["lengths"])
    number = np.array([kinds.number(Kind(**row)) for row in tables["kinds"].to_pylist()], np.int32)
    requests = _arrays(tables["requests"])
    counted = Requests(requests["minute"], number[requests["kind"]], requests["requests"], requests["newest_us"])
    timed = Latencies(**_arrays(tables["latencies"]))
    files: dict[int, list[LogFile]] = {}
    for row in tables["files"].to_pylist():
        signature = tuple(orjson.loads(row["signature"]))
        files.setdefault(row["part"], []).append(LogFile(row["path"], row["hour"], signature))
    found, first, first_timed = [], 0, 0
    for place, row in enumerate(tables["parts"].to_pylist()):
        last, last_timed = first + row["requests"], first_timed + row["latencies"]
        part = Part(counted.where(slice(first, last)), timed.where(slice(first_timed, last_timed)))
        found.append(StoredPart(tuple(files[place]), row["slot"], part))
        first, first_timed = last, last_timed
    return found


def _tables(body: bytes, lengths: Mapping[str, int]) -> dict[str, pa.Table]:
    found, start, whole = {}, 0, pa.py_buffer(body)
    for name in _TABLES:
        with pa.ipc.open_stream(whole.slice(start, lengths[name])) as stream:
            found[name] = stream.read_all()
        start += lengths[name]
    return found


def _arrays(table: pa.Table) -> dict[str, npt.NDArray[Any]]:
    return {name: table[name].to_numpy() for name in table.column_names}
