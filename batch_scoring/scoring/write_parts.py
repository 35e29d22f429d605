"""The task that writes one score file: what all splits scored of its buckets, sorted."""

import uuid
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from batch_scoring.files import file_system
from batch_scoring.score_files import Part, part_name, write_part


class PartTask(NamedTuple):
    """Which part, from which folder and files in it, to which folder."""

    number: int
    work_url: str
    files: tuple[str, ...]
    target_url: str


class Written(NamedTuple):
    """A part under the name that only this attempt gave it. `filled`: buckets that have rows."""

    number: int
    part: Part
    checksum: int
    filled: int


def write_parts(tasks: Iterable[PartTask]) -> Iterator[Written]:
    for task in tasks:
        rows = pa.Table.from_batches([_rows(task, name) for name in task.files])
        if rows.num_rows:
            name = f"{uuid.uuid4().hex}-{part_name(task.number)}"
            part, checksum = write_part(task.target_url, name, rows)
            yield Written(task.number, part, checksum, len(np.unique(rows["bucket"])))


def commit_parts(folder_url: str, written: Iterable[Written]) -> list[Written]:
    """Gives the parts that count their names, removes what came second; returns them in the order of buckets."""
    filesystem, folder = file_system(folder_url)
    committed = []
    for one in sorted(written, key=lambda one: one.number):
        name = part_name(one.number)
        filesystem.mv(f"{folder}/{one.part.name}", f"{folder}/{name}")
        committed.append(one._replace(part=one.part.model_copy(update={"name": name})))
    names = {one.part.name for one in committed}
    for path in filesystem.find(folder):
        if path.rpartition("/")[2] not in names:
            filesystem.rm(path)
    return committed


def _rows(task: PartTask, name: str) -> pa.RecordBatch:
    filesystem, folder = file_system(task.work_url)
    with filesystem.open(f"{folder}/{name}", "rb") as file, pa.ipc.open_file(file) as reader:
        return reader.get_batch(task.number)
