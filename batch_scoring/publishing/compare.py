"""Compares score files with what Redis holds: every bucket, byte for byte, in memory that does not grow with them.

A bucket that Redis keeps as a listpack answers HGETALL with the very bytes it was written with, so that most need
no parsing. Threads suffice: what takes time is the server, the files and the digests, and none of them holds
Python's lock.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import hiredis
import numpy as np
import numpy.typing as npt

from batch_scoring.bucket_bytes import Slice, WireBucket, digest_bytes, empty_buckets, score_slices, wire_buckets
from batch_scoring.checksum import packed_digest
from batch_scoring.fail_points import reach
from batch_scoring.faults import not_taken
from batch_scoring.link import Link, Links, ReplyError
from batch_scoring.priority import give_way
from batch_scoring.runs import Run
from batch_scoring.score_files import Part, bucket_ranges, parts_of, read_part
from batch_scoring.settings import BatchSettings
from batch_scoring.store import Pace, connect
from schemas.keys import bucket_prefix

_READ_BUCKETS = 50
# With a limit, buckets are read about so often.
_SMOOTH_S = 0.01
# The server reads a bucket in a fifth of the time that writing it takes (20 and 106 µs, Valkey 9.1).
_READ_COST = 0.2
_SHOWN = 3

Rows = npt.NDArray[np.int64]
Sample = list[tuple[bytes, bytes]]


class Difference(NamedTuple):
    """What Redis holds of a bucket beside what it should."""

    bucket: int
    missing: list[bytes]
    extra: list[bytes]
    other: list[bytes]

    def __str__(self) -> str:
        names = [name.decode("utf-8", "backslashreplace") for name in (*self.missing, *self.extra, *self.other)]
        return (
            f"bucket {self.bucket}: {len(self.missing)} fields missing, {len(self.extra)} too many,"
            f" {len(self.other)} with another value, such as {', '.join(map(repr, names[:_SHOWN]))}"
        )


@dataclass
class Found:
    """What a comparison found.

    Attributes:
        rows: of the files.
        digests: (buckets,) by the files, 0 for one without rows.
        different: how many buckets are not what the files say; `shown` are some of them.
        sample: (entity, value) of the rows asked for.
    """

    digests: npt.NDArray[np.uint64]
    rows: int = 0
    different: int = 0
    shown: list[Difference] = field(default_factory=list)
    sample: Sample = field(default_factory=list)


def compare(run: Run, settings: BatchSettings, buckets: int, wanted: Rows) -> Found:
    """Compares all buckets of all parts.

    Args:
        wanted: ascending numbers of rows, counted over all parts, that are to be in the sample.

    Raises:
        DamagedScores: a file is not what was written.
        NotTaken: Redis refused to answer.
    """
    parts = parts_of(run)
    found, ranges = Found(np.zeros(buckets, np.uint64)), bucket_ranges(run, parts, buckets)
    firsts = np.cumsum([0, *(part.rows for part in parts)])
    threads = min(len(parts), settings.verify_threads or len(os.sched_getaffinity(0)))

    def share(thread: int) -> None:
        with connect(settings) as redis, Links(redis) as links:
            reader = _Reader(links, bucket_prefix(run.model, run.version, run.generation), settings, threads)
            for place in range(thread, len(parts), threads):
                mine = wanted[(wanted >= firsts[place]) & (wanted < firsts[place + 1])] - firsts[place]
                _compare_part(run, parts[place], ranges[place], mine, reader, found)
                reach("verify.half", settings.fail_point)

    with ThreadPoolExecutor(max(1, threads), initializer=give_way, initargs=(settings,)) as pool:
        for done in [pool.submit(share, thread) for thread in range(threads)]:
            done.result()
    return found


def _compare_part(run: Run, part: Part, owned: range, wanted: Rows, reader: "_Reader", found: Found) -> None:
    table = read_part(run, part)
    chosen = table.take(wanted)
    entities = (entity.encode() for entity in chosen["entity"].to_pylist())
    found.sample += zip(entities, chosen["packed"].to_pylist(), strict=True)
    found.rows += table.num_rows
    first = owned.start
    for rows in score_slices(table):
        reader.ask(wire_buckets(rows, first), found)
        found.digests[rows.buckets] = list(_digests(rows))
        first = rows.buckets[-1] + 1
    reader.ask(empty_buckets(range(first, owned.stop)), found)
    reader.finish(found)


def _digests(rows: Slice) -> Iterator[int]:
    packed, begin = digest_bytes(rows), 0
    for number, end in zip(rows.buckets, rows.ends, strict=True):
        yield packed_digest(number, packed.piece(begin, end))
        begin = end


class _Reader:
    """Asks for buckets some at a time: the next are on their way while the last are compared."""

    def __init__(self, links: Links, prefix: str, settings: BatchSettings, threads: int) -> None:
        self._links, self._prefix = links, prefix
        self._pace = Pace.of(settings, threads, _READ_COST)
        self._most_fields = self._pace.most_in(_SMOOTH_S, settings.write_batch_entities)
        self._asked: list[tuple[Link, list[WireBucket]]] = []

    def ask(self, buckets: list[WireBucket], found: Found) -> None:
        for some in _some(buckets, self._most_fields):
            by_link: dict[Link, list[WireBucket]] = {}
            self._pace.wait(sum(bucket.fields for bucket in some))
            for bucket in some:
                by_link.setdefault(self._links.of(f"{self._prefix}{bucket.number}"), []).append(bucket)
            for link, there in by_link.items():
                link.send(b"".join(self._command(bucket.number) for bucket in there))
            self.finish(found)
            self._asked = list(by_link.items())

    def finish(self, found: Found) -> None:
        """Compares what has been asked for."""
        for link, buckets in self._asked:
            for different in _differences(link, buckets):
                found.different += 1
                if len(found.shown) < _SHOWN:
                    found.shown.append(different)
        self._asked = []

    def _command(self, number: int) -> bytes:
        key = f"{self._prefix}{number}".encode()
        return b"*2\r\n$7\r\nHGETALL\r\n$%d\r\n%b\r\n" % (len(key), key)


def _some(buckets: list[WireBucket], most_fields: int) -> Iterator[list[WireBucket]]:
    """So many that they have about `most_fields` together, and at least one."""
    some: list[WireBucket] = []
    fields = 0
    for bucket in buckets:
        if some and (fields + bucket.fields > most_fields or len(some) == _READ_BUCKETS):
            yield some
            some, fields = [], 0
        some.append(bucket)
        fields += bucket.fields
    if some:
        yield some


def _differences(link: Link, buckets: Sequence[WireBucket]) -> Iterator[Difference]:
    replies = link.unless(b"".join(map(_wire, buckets)), len(buckets))
    for bucket, reply in zip(buckets, replies or (), strict=replies is not None):
        if isinstance(reply, ReplyError) and not str(reply).startswith("WRONGTYPE"):
            raise not_taken(str(reply), link.node)
        there, wanted = _pairs(reply), _pairs(_parsed(bucket))
        if there != wanted:
            other = [name for name in wanted.keys() & there.keys() if wanted[name] != there[name]]
            names = wanted.keys() - there.keys(), there.keys() - wanted.keys(), other
            yield Difference(bucket.number, *map(sorted, names))


def _wire(bucket: WireBucket) -> bytes:
    return b"".join((b"*%d\r\n" % (2 * bucket.fields), bucket.body))


def _parsed(bucket: WireBucket) -> object:
    reader = hiredis.Reader()
    reader.feed(_wire(bucket))
    return reader.gets()


def _pairs(reply: object) -> dict[bytes, bytes]:
    """Of a reply to HGETALL; a key that is no hash has none."""
    return dict(zip(reply[::2], reply[1::2], strict=True)) if isinstance(reply, list) else {}
