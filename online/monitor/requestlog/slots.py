"""How fine the figures of an hour are, and how many files are read at once. Pure."""

from collections.abc import Iterator, Sequence

from online.monitor.requestlog.files import LogFile

CHUNK_FILES = 64
# About a hundred thousand rows: a page that comes while a chunk is read waits for it.
CHUNK_BYTES = 4_000_000
# The 24-hour range is the longest that is cut finer than an hour.
FINE_HOURS = 27
# Older hours get no new files but by compaction, so that their files are kept as one part. The 1-hour range
# touches young ones only.
_YOUNG_HOURS = 2
# Minutes of a slot of latencies: of young hours, of those that the 24-hour range shows, and of older ones.
_YOUNG_SLOT, _DAY_SLOT, _OLD_SLOT = 1, 15, 60


def is_young(hour: int, now_hour: int) -> bool:
    return hour > now_hour - _YOUNG_HOURS


def slot_minutes(hour: int, now_hour: int) -> int:
    if is_young(hour, now_hour):
        return _YOUNG_SLOT
    return _DAY_SLOT if hour >= now_hour - FINE_HOURS else _OLD_SLOT


def chunks(files: Sequence[LogFile]) -> Iterator[list[LogFile]]:
    """In order, at most `CHUNK_FILES` and, but for a file that is larger alone, `CHUNK_BYTES` each."""
    chunk: list[LogFile] = []
    size = 0
    for file in files:
        if chunk and (len(chunk) == CHUNK_FILES or size + file.size > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(file)
        size += file.size
    if chunk:
        yield chunk
