"""Score files: what scoring writes, and publishing and verifying read.

`scores/part-NNNNN.parquet`, each a range of buckets, its rows ascending by bucket and field, so that whoever has a
part has its buckets whole. The report of the score step lists the parts with their digests: a file that was cut
short or changed is never published.
"""

from collections.abc import Sequence
from hashlib import sha256

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from batch_scoring.bucket_bytes import digest_bytes, fields_of, score_slices
from batch_scoring.checksum import add, packed_digest
from batch_scoring.files import file_system
from batch_scoring.runs import Refused, Run
from schemas.arrow import SCORES
from schemas.manifest import Sha256

# Rows of a part, about: small enough to hold in memory, and to lose little of when a task is killed.
PART_ROWS = 50_000
FOLDER = "scores"


class DamagedScores(Refused):
    """Score files are not what was written, which only scoring again can mend."""


class Part(BaseModel):
    """One score file. `first_bucket` and `last_bucket`: those it has rows of."""

    model_config = ConfigDict(frozen=True)

    name: str
    rows: PositiveInt
    first_bucket: NonNegativeInt
    last_bucket: NonNegativeInt
    sha256: Sha256


def part_count(rows: int, buckets: int) -> int:
    """How many parts `rows` entities make: none of none."""
    return min(buckets, -(-rows // PART_ROWS))


def part_of(bucket: int, buckets: int, parts: int) -> int:
    """The part that a bucket lies in."""
    return bucket * parts // buckets


def part_name(number: int) -> str:
    return f"part-{number:05d}.parquet"


def parts_of(run: Run) -> list[Part]:
    """The parts of a scored run. Raises Refused where it was not scored."""
    found = run.need_report("score")["parts"]
    assert isinstance(found, list)
    return [Part.model_validate(one) for one in found]


def bucket_ranges(run: Run, parts: Sequence[Part], buckets: int) -> list[range]:
    """For each part its buckets, of all of them; those without rows go with the part behind them, or the last.

    Raises:
        DamagedScores: parts that are not one behind the other.
    """
    begins = [0, *(part.last_bucket + 1 for part in parts[:-1])]
    ends = [*begins[1:], buckets]
    found = [range(begin, end) for begin, end in zip(begins, ends, strict=True)] if parts else []
    for part, owned in zip(parts, found, strict=True):
        if part.first_bucket not in owned or part.last_bucket not in owned:
            raise DamagedScores(f"{part.name} of {run.generation} has buckets of another part: run score again")
    return found


def write_part(folder_url: str, name: str, scores: pa.Table) -> tuple[Part, int]:
    """Writes one part from rows of `SCORES` in any order; returns it, and the checksum of its buckets.

    Args:
        scores: at least one row, all rows of each bucket that it has.
    """
    table = ordered(scores)
    sink = pa.BufferOutputStream()
    # Entities and values are each there once: a dictionary of them would only be given up half-way.
    pq.write_table(table, sink, use_dictionary=["bucket"])
    data = sink.getvalue()
    filesystem, path = file_system(folder_url)
    filesystem.makedirs(path, exist_ok=True)
    filesystem.pipe_file(f"{path}/{name}", data.to_pybytes())
    numbers = table["bucket"]
    part = Part(
        name=name,
        rows=table.num_rows,
        first_bucket=numbers[0].as_py(),
        last_bucket=numbers[-1].as_py(),
        sha256=sha256(data).hexdigest(),
    )
    return part, _checksum(table)


def _checksum(table: pa.Table) -> int:
    """The sum of the digests of a part's buckets, as `Bucket.digest`, without an object for each row."""
    total = 0
    for rows in score_slices(table):
        packed = digest_bytes(rows)
        for number, begin, end in zip(rows.buckets, [0, *rows.ends[:-1]], rows.ends, strict=True):
            total = add(total, packed_digest(number, packed.piece(begin, end)))
    return total


def are_whole(run: Run, parts: Sequence[Part]) -> bool:
    """Whether all parts are there as they were written."""
    filesystem, path = file_system(run.place(FOLDER))
    try:
        return all(sha256(filesystem.cat_file(f"{path}/{part.name}")).hexdigest() == part.sha256 for part in parts)
    except FileNotFoundError:
        return False


def read_part(run: Run, part: Part) -> pa.Table:
    """The rows of a part, as they were written. Raises DamagedScores where the file is not what was written."""
    filesystem, path = file_system(run.place(FOLDER))
    try:
        data = filesystem.cat_file(f"{path}/{part.name}")
    except FileNotFoundError:
        raise DamagedScores(f"{part.name} of {run.generation} is not there: run score again") from None
    if sha256(data).hexdigest() != part.sha256:
        raise DamagedScores(
            f"{part.name} of {run.generation} is not what was scored ({len(data):,} bytes with another digest):"
            " it was changed or cut short, run score again"
        )
    # In this thread alone: publishing and verifying read several at a time, beside a server that answers look-ups.
    table: pa.Table = pq.read_table(pa.BufferReader(data), schema=SCORES, use_threads=False)
    return table


def ordered(scores: pa.Table) -> pa.Table:
    """The rows ascending by bucket and field, in the declared columns."""
    rows = scores.combine_chunks()
    fields = pa.chunked_array([fields_of(chunk) for chunk in rows["entity"].chunks], pa.binary())
    keys: Sequence[tuple[str, str]] = [("bucket", "ascending"), ("field", "ascending")]
    return rows.append_column("field", fields).sort_by(keys).select(SCORES.names).cast(SCORES)
