"""Rows of many Parquet files into few of a bounded size. Nothing is cast: files of another schema stay apart."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_GROUP_ROWS = 1 << 17


class Damaged(Exception):
    """A file that cannot be read to its end."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


@dataclass(slots=True)
class SameSchema:
    """Files whose columns have the same names, types and order, and that say the same version."""

    schema: pa.Schema
    paths: list[Path] = field(default_factory=list)


def by_schema(paths: Sequence[Path]) -> list[SameSchema]:
    """Raises Damaged for a file without a readable footer."""
    groups: list[SameSchema] = []
    for path in paths:
        try:
            schema = pq.read_schema(path)
        except (pa.ArrowException, OSError) as error:
            raise Damaged(path, f"no Parquet: {error}") from None
        for group in groups:
            if group.schema.equals(schema) and _version(group.schema) == _version(schema):
                group.paths.append(path)
                break
        else:
            groups.append(SameSchema(schema, [path]))
    return groups


def _version(schema: pa.Schema) -> bytes | None:
    return (schema.metadata or {}).get(b"hotset.request_log")


def merge(group: SameSchema, folder: Path, stem: str, max_bytes: int) -> int:
    """Writes `STEM-0.parquet` and so on; returns the rows.

    Raises:
        Damaged: a file's pages cannot be read; what was written is of no use.
    """
    rows, tables = 0, _tables(group)
    table = next(tables, None)
    number = 0
    while table is not None:
        path = folder / f"{stem}-{number}.parquet"
        with path.open("xb") as file:
            with pq.ParquetWriter(file, group.schema, compression="zstd") as writer:
                while table is not None and file.tell() < max_bytes:
                    writer.write_table(table)
                    rows += table.num_rows
                    table = next(tables, None)
            file.flush()
            os.fsync(file.fileno())
        number += 1
    return rows


def _tables(group: SameSchema) -> Iterator[Any]:
    """The rows, in tables of about a row group each. Each file is read whole before any of it is given."""
    waiting: list[pa.Table] = []
    for path in group.paths:
        try:
            waiting.append(pq.ParquetFile(path).read())
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise Damaged(path, f"damaged: {error}") from None
        if sum(table.num_rows for table in waiting) >= _GROUP_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
