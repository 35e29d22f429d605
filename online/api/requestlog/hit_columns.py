"""Columns of plain hits, most of which are alike in all rows."""

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import numpy.typing as npt

from online.api.answering.l1 import Kept
from online.api.requestlog.columns import Coded, Columns, Int64Array, Numbers, Row, Same, Texts
from online.api.requestlog.hit_rows import NUMBERS_BYTES, Hits, Numbers5
from online.api.requestlog.places import places_of
from online.api.requestlog.samples import SampledHit, Samples
from online.api.routes.view import VersionView
from schemas.http import Source


def columns_of(hits: Hits, samples: Samples) -> Columns:
    """In the order of `schemas.arrow.REQUEST_LOG`. `hits`: at least one."""
    row_bytes = hits.id_bytes + NUMBERS_BYTES
    rows = np.frombuffer(hits.packed, np.uint8).reshape(-1, row_bytes)
    ids = np.ascontiguousarray(rows[:, : hits.id_bytes])
    numbers = np.ascontiguousarray(rows[:, hits.id_bytes :]).view(np.int64)
    now_us, *times_us = np.ascontiguousarray(numbers.T)
    total_us, route_us, lookup_us, post_us = map(Numbers, times_us)
    told, codes = _distinct(hits.told)
    entities = [one.entity for one in told]
    labels, generations = [one.answer.label for one in told], [one.generation for one in told]
    confidence = np.array([one.answer.confidence for one in told], np.float64)  # None becomes NaN
    age_ms = np.maximum(0, now_us // 1000 - np.array([one.computed_at_ms for one in told], np.int64)[codes])
    entity_places = np.fromiter(map(crc32, entities), np.int64, len(entities))
    inputs, outputs = _sampled(hits, ids, places_of(ids, entity_places[codes]), samples)
    request_ids = Texts(ids.tobytes(), np.arange(1, len(ids) + 1, dtype=np.int64) * hits.id_bytes)
    none, source, status, no = (Same(value, len(codes)) for value in (None, Source.PRECOMPUTED, 200, False))
    return [
        *(Numbers(now_us), request_ids, Coded(_texts(entities), codes)),
        *(Same(hits.lane.version.name, len(codes)), _coded(generations, codes), none, none, source),
        *(none, status, none, _coded(labels, codes)),
        none if np.isnan(confidence).all() else Numbers(confidence[codes]),
        *(Numbers(age_ms), total_us, route_us, lookup_us),
        *(none, none, none, none, post_us, none, no, inputs, outputs),
    ]


def whole_row(version: VersionView, kept: Kept, request_id: bytes, numbers: Numbers5) -> Row:
    """As `documents.log_row`, of one hit that is not of the sample."""
    now_us, total_us, route_us, lookup_us, post_us = numbers
    answer, age_ms = kept.answer, max(0, now_us // 1000 - kept.computed_at_ms)
    return (
        *(now_us, request_id.decode(), kept.entity.decode(), version.name, kept.generation, None, None),
        *(Source.PRECOMPUTED, None, 200, None, answer.label, answer.confidence, age_ms),
        *(total_us, route_us, lookup_us, None, None, None, None, post_us, None, False, None, None),
    )


def _distinct(told: Sequence[Kept]) -> tuple[list[Kept], Int64Array]:
    """Each object once, and which of those each row has: (rows,)."""
    # By identity: to compare what is in them would take longer than to have some of them twice.
    _, firsts, codes = np.unique(
        np.fromiter(map(id, told), np.int64, len(told)), return_index=True, return_inverse=True
    )
    return [told[row] for row in firsts.tolist()], codes


def _texts(texts: Sequence[bytes]) -> Texts:
    return Texts(b"".join(texts), np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts))))


def _coded(values: Sequence[object], codes: Int64Array) -> Sequence[object]:
    """A column of few values, most often of one. `codes`: which of `values` each row has."""
    if values.count(values[0]) == len(values):
        return Same(values[0], len(codes))
    places: dict[object, int] = {}
    code_of = np.array([places.setdefault(value, len(places)) for value in values])
    return Coded(list(places), code_of[codes])


def _sampled(
    hits: Hits, ids: npt.NDArray[np.uint8], places: Int64Array, samples: Samples
) -> tuple[Sequence[object], Sequence[object]]:
    """Inputs and outputs of those of the sample.

    Args:
        ids: (rows, bytes) of the requests.
        places: (rows,) by `places_of`.
    """
    rows = samples.rows(places)
    sampled = [SampledHit(ids[row].tobytes(), places[row].item(), hits.told[row]) for row in rows]
    parts: list[tuple[object, object]] = [(None, None), *samples.parts_of(hits.lane, sampled)]
    which = np.zeros(len(ids), np.int64)
    which[rows] = np.arange(1, len(parts))
    inputs, outputs = (Coded(values, which) for values in zip(*parts, strict=True))
    return inputs, outputs
