"""Inputs and outputs in the request log: of which answers, and what of them is never logged.

Which answers is decided by request id and entity alone: see `places.py`.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import orjson

from online.api.answering.l1 import Kept
from online.api.requestlog.columns import Int64Array
from online.api.requestlog.hit_rows import Lane
from online.api.routes.view import ModelView, VersionView
from schemas.names import WITHHELD

log = logging.getLogger(__name__)

_MAX_INPUT_BYTES = 16 << 10
_WITHHELD = {WITHHELD: True}

Record = Mapping[str, object]
# The last two columns of the log's row.
Parts = tuple[str | None, list[float | None] | None]
Offer = Callable[[int, str, ModelView, VersionView, bytes, str, Sequence[float]], None]


class SampledHit(NamedTuple):
    """`place`: by `place_of`."""

    request_id: bytes
    place: int
    kept: Kept


def _to_nobody(*hit: object) -> None:
    """Where nobody wants the hits of the sample."""


class Samples:
    """
    Asked by the event loop and by the log's thread.

    Args:
        share: of the answers that leave inputs and outputs.
        never: names of features and outputs, of any model, whose values are not to be logged.
        records_of: features of entities as they are at hand, for hits, which are answered without them.
        offer: gets each precomputed answer of the sample, from the event loop and from the log's thread: its
            `place_of`, request id, view, version, entity, generation, outputs.
    """

    def __init__(
        self,
        share: float,
        never: Collection[str],
        records_of: Callable[[ModelView, Sequence[bytes]], Sequence[Record | None]],
        offer: Offer = _to_nobody,
    ) -> None:
        self._limit = share * 0x1_0000_0000
        self._never, self._records_of, self.offer = frozenset(never), records_of, offer

    def takes(self, place: int) -> bool:
        """Whether this answer is of the sample. `place`: by `place_of`."""
        return place < self._limit

    def rows(self, places: Int64Array) -> Int64Array:
        """Which of many answers are. `places`: (n,) by `places_of`."""
        return np.flatnonzero(places < self._limit)

    def parts(
        self,
        view: ModelView,
        version: VersionView | None,
        entity: bytes,
        record: Record | None,
        outputs: Sequence[float],
    ) -> Parts:
        """`record` is None where the features were not needed to answer."""
        if record is None:
            (record,) = self._records_of(view, [entity])
        return self._inputs(record), self._outputs(version or view.stable, outputs)

    def parts_of(self, lane: Lane, sampled: Sequence[SampledHit]) -> list[Parts]:
        """`parts` of plain hits that are of the sample; they are offered, too. What fails costs no row."""
        try:
            return self._parts_of(lane, sampled)
        except Exception:
            log.exception("inputs and outputs of a sample are not logged", extra={"rows": len(sampled)})
            return [(None, None)] * len(sampled)

    def _parts_of(self, lane: Lane, sampled: Sequence[SampledHit]) -> list[Parts]:
        parts = list[Parts]()
        records = self._records_of(lane.view, [hit.kept.entity for hit in sampled])
        for hit, record in zip(sampled, records, strict=True):
            kept, request_id = hit.kept, hit.request_id.decode(errors="backslashreplace")
            parts.append((self._inputs(record), self._outputs(lane.version, kept.outputs)))
            if kept.generation is not None:
                of_kept = (kept.entity, kept.generation, kept.outputs)
                self.offer(hit.place, request_id, lane.view, lane.version, *of_kept)
        return parts

    def _inputs(self, record: Record | None) -> str | None:
        """None where there is nothing, or nothing that is JSON of a bearable length."""
        if record is None:
            return None
        if not self._never.isdisjoint(record):
            record = {name: _WITHHELD if name in self._never else value for name, value in record.items()}
        try:
            text = orjson.dumps(record)
        except (TypeError, ValueError):
            return None
        return text.decode() if len(text) <= _MAX_INPUT_BYTES else None

    def _outputs(self, version: VersionView, outputs: Sequence[float]) -> list[float | None]:
        """An output that is not to be logged is null: in Redis and in answers there is no such value."""
        logged: list[float | None] = list(outputs)
        if self._never:
            for output, _, stored in version.manifest.output.spans:
                if output.name in self._never:
                    logged[stored] = [None] * len(output.stored_names)
        return logged
