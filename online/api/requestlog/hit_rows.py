"""Rows of plain hits: most answers are such, and most columns of theirs are alike.

An answer leaves what is its own, as one tuple. A few hundred of those are packed at once, by the event loop, so
that objects of requests end soon: memory that is used again at once is still in the processor's cache, and the
thread that writes the log, which would hold the loop up, has little to do. The rest of a row is put to it there.
"""

from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from online.api.requestlog.columns import Coded, Columns, Numbers, Row, Same, Texts
from online.api.requestlog.queues import left
from schemas.http import Source

# Request id; entity; version, generation and label; confidence; when it was answered (us) and computed (ms); us in
# total, before the look-up, of it, and for the answer's text.
HitRow = tuple[bytes, bytes, str, str | None, str | None, float | None, int, int, int, int, int, int]
Kind = tuple[object, ...]
Int64Array = npt.NDArray[np.int64]

PACKED_ROWS = 512


class HitRows:
    """Of one model; added to by the event loop, taken from by the writer's thread: see `queues.left`."""

    def __init__(self, max_rows: int) -> None:
        """`max_rows`: that wait for the writer, in packs."""
        self._max_packs = max(1, max_rows // PACKED_ROWS)
        self._rows: deque[HitRow] = deque()
        self._packs: deque[_Pack] = deque()
        self.dropped = 0

    def add(self, row: HitRow) -> None:
        rows = self._rows
        rows.append(row)
        if len(rows) >= PACKED_ROWS:
            self._pack()

    def _pack(self) -> None:
        rows = left(self._rows)
        if len(self._packs) >= self._max_packs:
            self.dropped += len(rows)
        elif rows:
            self._packs.append(_packed(rows))

    def take(self) -> Columns | None:
        """In the order of `schemas.arrow.REQUEST_LOG`; they leave. None where there is no row."""
        packs = left(self._packs)
        if rows := left(self._rows):
            packs.append(_packed(rows))
        return _columns(packs) if packs else None


def whole_row(row: HitRow, inputs: str | None = None, outputs: Sequence[float | None] | None = None) -> Row:
    """As `documents.log_row`, of a hit that leaves more than its own columns or is told of elsewhere."""
    request_id, entity, version, generation, label, confidence, now_us, computed_at_ms, *times_us = row
    total_us, route_us, lookup_us, post_us = times_us
    age_ms = max(0, now_us // 1000 - computed_at_ms)
    return (
        *(now_us, request_id.decode(), entity.decode(), version, generation, None, None),
        *(Source.PRECOMPUTED, None, 200, None, label, confidence, age_ms, total_us, route_us, lookup_us),
        *(None, None, None, None, post_us, None, False, inputs, outputs),
    )


class _Pack(NamedTuple):
    """Rows by column. `kinds`: version, generation, label, of each row, or of all. `numbers`: from `now_us` on."""

    rows: int
    ids: bytes
    id_bytes: Int64Array
    entities: bytes
    entity_bytes: Int64Array
    kinds: Sequence[Kind]
    confidences: npt.NDArray[np.float64]
    numbers: Sequence[Int64Array]


def _packed(rows: Sequence[HitRow]) -> _Pack:
    ids, entities, versions, generations, labels, confidences, *numbers = zip(*rows, strict=True)
    is_one_kind = all(column.count(column[0]) == len(rows) for column in (versions, generations, labels))
    kinds = [row[2:5] for row in (rows[:1] if is_one_kind else rows)]
    ints = Struct(f"={len(rows)}q").pack  # twice as fast as numpy's own way
    return _Pack(
        *(len(rows), b"".join(ids), _lengths(ids), b"".join(entities), _lengths(entities), kinds),
        np.array(confidences, dtype=np.float64),  # None becomes NaN
        [np.frombuffer(ints(*column), np.int64) for column in numbers],
    )


def _lengths(texts: Sequence[bytes]) -> Int64Array:
    return np.fromiter(map(len, texts), np.int64, len(texts))


def _columns(packs: Sequence[_Pack]) -> Columns:
    now_us, computed_ms, *times_us = (
        np.concatenate(parts) for parts in zip(*(pack.numbers for pack in packs), strict=True)
    )
    none, source, status, no = (Same(value, len(now_us)) for value in (None, Source.PRECOMPUTED, 200, False))
    total_us, route_us, lookup_us, post_us = map(Numbers, times_us)
    confidences = np.concatenate([pack.confidences for pack in packs])
    version, generation, label = _by_kind(packs)
    return [
        *(Numbers(now_us), _texts([(pack.ids, pack.id_bytes) for pack in packs])),
        *(_texts([(pack.entities, pack.entity_bytes) for pack in packs]), version, generation, none, none, source),
        *(none, status, none, label, none if np.isnan(confidences).all() else Numbers(confidences)),
        *(Numbers(np.maximum(0, now_us // 1000 - computed_ms)), total_us, route_us, lookup_us),
        *(none, none, none, none, post_us, none, no, none, none),
    ]


def _texts(parts: Sequence[tuple[bytes, Int64Array]]) -> Texts:
    return Texts(b"".join(data for data, _ in parts), np.cumsum(np.concatenate([lengths for _, lengths in parts])))


def _by_kind(packs: Sequence[_Pack]) -> list[Sequence[object]]:
    """The columns of which a kind has one value each; there are few kinds."""
    places: dict[Kind, int] = {}
    codes = np.concatenate([_codes(pack, places) for pack in packs])
    return [
        Coded(values, codes) if len(set(values)) > 1 else Same(values[0], len(codes))
        for values in zip(*places, strict=True)
    ]


def _codes(pack: _Pack, places: dict[Kind, int]) -> Int64Array:
    codes = np.array([places.setdefault(kind, len(places)) for kind in pack.kinds], dtype=np.int64)
    return np.repeat(codes, pack.rows) if len(codes) == 1 else codes
