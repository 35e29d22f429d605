"""Writes whole buckets to Redis: each replaced in one transaction, so that a task run twice changes nothing."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from redis import Redis

from batch_scoring.bucket_bytes import WireBucket
from batch_scoring.faults import NotTaken, not_taken
from batch_scoring.link import Link, Links, ReplyError
from batch_scoring.settings import BatchSettings
from batch_scoring.store import Pace, connect

Field = tuple[int, bytes, bytes]  # bucket, field, value
# With a limit, a write goes out about so often: a bucket or two, for which look-ups hardly wait.
_SMOOTH_S = 0.01
_MULTI, _EXEC = b"*1\r\n$5\r\nMULTI\r\n", b"*1\r\n$4\r\nEXEC\r\n"


@dataclass
class _Waiting:
    """What is to be sent to one node, and the fields of each bucket whose replies it owes."""

    pieces: list[bytes | memoryview] = field(default_factory=list)
    fields: list[int] = field(default_factory=list)
    owed: list[int] = field(default_factory=list)


def write_buckets(rows: Iterable[Field], prefix: str, settings: BatchSettings) -> int:
    """Writes rows that are sorted by bucket; every bucket met is replaced by its rows.

    Returns:
        Fields written.

    Raises:
        NotTaken: Redis refused a write; every bucket is as it was or as it is to be.
    """
    with connect(settings) as redis:
        return replace_buckets(redis, _from_rows(rows), prefix, settings)


def replace_buckets(
    redis: Redis, buckets: Iterable[WireBucket], prefix: str, settings: BatchSettings, tasks: int = 1
) -> int:
    """As `write_buckets`; a bucket without fields is deleted. On a cluster each node gets its own directly.

    Args:
        tasks: how many run at the same time, and share `max_entities_per_s`.
    """
    written = 0
    with Links(redis) as links:
        pace = Pace.of(settings, tasks)
        sender = _Sender(pace, pace.most_in(_SMOOTH_S, settings.write_batch_entities), settings.write_batch_bytes)
        for bucket in buckets:
            key = f"{prefix}{bucket.number}"
            sender.add(links.of(key), key.encode(), bucket)
            written += bucket.fields
        sender.finish()
    return written


class _Sender:
    """Collects commands into writes of bounded size. One is on its way while the replies to the one before are
    read: neither side waits for the other.
    """

    def __init__(self, pace: Pace, most_fields: int, most_bytes: int) -> None:
        self._pace, self._most_fields, self._most_bytes = pace, most_fields, most_bytes
        self._nodes: dict[Link, _Waiting] = {}
        self._fields = self._bytes = 0

    def add(self, link: Link, key: bytes, bucket: WireBucket) -> None:
        if self._fields and (
            self._fields + bucket.fields > self._most_fields or self._bytes + len(bucket.body) > self._most_bytes
        ):
            self._send()
        waiting = self._nodes.setdefault(link, _Waiting())
        waiting.pieces += _replacement(key, bucket)
        waiting.fields.append(bucket.fields)
        self._fields += max(1, bucket.fields)
        self._bytes += len(bucket.body)

    def finish(self) -> None:
        self._send()
        for link, waiting in self._nodes.items():
            _check(link, waiting.owed)

    def _send(self) -> None:
        self._pace.wait(self._fields)
        for link, waiting in self._nodes.items():
            if waiting.pieces:
                link.send(b"".join(waiting.pieces))
            _check(link, waiting.owed)
            waiting.pieces, waiting.fields, waiting.owed = [], [], waiting.fields
        self._fields = self._bytes = 0


def _replacement(key: bytes, bucket: WireBucket) -> Iterator[bytes | memoryview]:
    """A transaction for each bucket, not for the whole write: look-ups get in between, and a task that is killed
    leaves no bucket deleted that another attempt had written.
    """
    name = b"$%d\r\n%b\r\n" % (len(key), key)
    yield _MULTI + b"*2\r\n$3\r\nDEL\r\n" + name
    if bucket.fields:
        yield b"*%d\r\n$4\r\nHSET\r\n" % (2 + 2 * bucket.fields) + name
        yield bucket.body
    yield _EXEC


def _check(link: Link, owed: list[int]) -> None:
    """Reads the replies of that many transactions. Raises NotTaken unless all were done."""
    commands = [4 if fields else 3 for fields in owed]
    replies = link.replies(sum(commands))
    refused = [reply for reply in replies if isinstance(reply, ReplyError)]
    if refused:
        raise not_taken(str(refused[0]), link.node)
    end = 0
    for fields, count in zip(owed, commands, strict=True):
        end += count
        done = replies[end - 1]
        if not isinstance(done, list) or (fields and done[-1] != fields):
            raise NotTaken(f"Redis answered {done!r} to a bucket of {fields} fields: two rows have the same field")


def _from_rows(rows: Iterable[Field]) -> Iterator[WireBucket]:
    for number, group in groupby(rows, key=itemgetter(0)):
        mapping: Mapping[bytes, bytes] = {name: value for _, name, value in group}
        pieces = [b"$%d\r\n%b\r\n" % (len(text), text) for pair in mapping.items() for text in pair]
        yield WireBucket(number, len(mapping), b"".join(pieces))
