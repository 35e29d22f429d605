"""What hits of one precomputed set share, for the short ways of `hits.py` and `batch_hits.py`.

A lane is a view whose answers need no more than one stored value: one precomputed set, no age limit, no labels to
be checked, no experiment. The text of such an answer is made here, once for both ways.
"""

from collections.abc import Mapping
from typing import NamedTuple

import orjson

from online.api.answering.l1 import L1, Kept
from online.api.http.conditional import etag_of_numbers
from online.api.http.documents import rfc3339
from online.api.lookup.resp import Command, get, hget
from online.api.routes.view import Layer, ModelView, VersionView
from schemas.codec import HEAD_BYTES, CorruptValue, unpack
from schemas.http import Source
from schemas.keys import bucket_of, field_of

_TAIL = b'%.3f,"experiment":null,"arm":null,"request_id":"%b"}'


class Lane(NamedTuple):
    """`text`: what stands between entity and label in the answers."""

    view: ModelView
    version: VersionView
    layer: Layer
    text: bytes

    def questions(self, raw: bytes) -> tuple[Command, Command]:
        """The commands that look an entity up."""
        layer = self.layer
        place = layer.prefix + b"%d" % bucket_of(raw, layer.buckets)
        return hget(place, field_of(raw)), get(self.version.live_prefix + raw)

    def kept(
        self, raw: bytes, precomputed: object, written_back: object, l1: L1, is_tagged: bool = False
    ) -> Kept | None:
        """The answer that replies to `questions` make, which L1 keeps too; None where they are no plain hit.

        Args:
            is_tagged: whether its ETag is of use, though L1 keeps nothing.
        """
        if written_back is not None or not isinstance(precomputed, bytes):
            return None
        version, layer = self.version, self.layer
        try:
            _, computed_at_ms, outputs = unpack(precomputed, raw, layer.ordinal, version.output_count)
        except CorruptValue:
            return None
        answer = version.maker.answer(outputs)
        named, label, confidence = answer
        own = orjson.dumps({"label": label, "confidence": confidence, "outputs": named})
        entity, computed_at = orjson.dumps(raw.decode()), rfc3339(computed_at_ms).encode()
        rendered = b'{"entity":%b,%b,%b,"computed_at":"%b","age_s":' % (entity, self.text, own[1:-1], computed_at)
        keeps, etag = l1.keeps, b""
        if is_tagged or keeps:
            etag = etag_of_numbers(version, computed_at_ms, precomputed[HEAD_BYTES:])
        kept = Kept(raw, outputs, answer, computed_at_ms, layer.generation, rendered, etag)
        if keeps:
            l1.put(version.l1_prefix + raw, kept)
        return kept


def told(kept: Kept, request_id: bytes, now_ms: int) -> bytes:
    """The answer's whole text. `request_id` as it stands between the quotes of JSON."""
    return kept.rendered + _TAIL % (max(0, now_ms - kept.computed_at_ms) / 1000, request_id)


class Lanes:
    """Of all models, made anew where a view has changed."""

    def __init__(self, views: Mapping[str, ModelView]) -> None:
        self._views = views
        self._lanes: dict[str, Lane] = {}

    def of_model(self, model: str) -> Lane | None:
        """That of its present view; None where more is to be looked at."""
        view, lane = self._views.get(model), self._lanes.get(model)
        if lane is not None and lane.view is view:
            return lane
        return None if view is None else self.of(view)

    def of(self, view: ModelView) -> Lane | None:
        """None where more than one precomputed set is to be asked, or ages, places or arms to be looked into."""
        version = view.stable
        lane = self._lanes.get(version.model)
        if lane is not None and lane.view is view:
            return lane
        is_usual = len(version.layers) == 1 and version.max_age_ms is None and not version.maker.has_places
        if not is_usual or view.document.experiment is not None:
            return None
        (layer,) = version.layers
        shared: dict[str, object] = {"model": version.model, "version": version.name}
        shared |= {"generation": layer.generation, "source": Source.PRECOMPUTED, "miss_reason": None}
        self._lanes[version.model] = lane = Lane(view, version, layer, orjson.dumps(shared)[1:-1])
        return lane
