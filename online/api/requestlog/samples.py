"""Inputs and outputs in the request log: of which answers, and what of them is never logged.

Which answers is decided by request id and entity alone, so that whoever asks about the same request decides alike:
every worker, a second try, another tier.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from zlib import crc32

import orjson

from online.api.routes.view import ModelView, VersionView
from schemas.names import WITHHELD

_MAX_INPUT_BYTES = 16 << 10
_WITHHELD = {WITHHELD: True}

Record = Mapping[str, object]
Offer = Callable[[str, ModelView, VersionView, bytes, str, Sequence[float]], None]


def _to_nobody(*hit: object) -> None:
    """Where nobody wants the hits of the sample."""


def place_of(request_id: str, entity: bytes) -> int:
    """Where an answer stands among all, 0 to 2³²: a sample of a share takes those below that share of it."""
    return crc32(entity, crc32(request_id.encode()))


class Samples:
    """
    Args:
        share: of the answers that leave inputs and outputs.
        never: names of features and outputs, of any model, whose values are not to be logged.
        record_of: features of an entity as they are at hand, for hits, which are answered without them.
        offer: gets each precomputed answer of the sample: request id, view, version, entity, generation, outputs.
    """

    def __init__(
        self,
        share: float,
        never: Collection[str],
        record_of: Callable[[ModelView, bytes], Record | None],
        offer: Offer = _to_nobody,
    ) -> None:
        self._limit = share * 0x1_0000_0000
        self._never, self._record_of, self.offer = frozenset(never), record_of, offer

    def takes(self, request_id: bytes, entity: bytes) -> bool:
        """Whether this answer is of the sample. All that an answer pays that is not."""
        return crc32(entity, crc32(request_id)) < self._limit  # as `place_of`, without a call

    def parts(
        self,
        view: ModelView,
        version: VersionView | None,
        entity: bytes,
        record: Record | None,
        outputs: Sequence[float],
    ) -> tuple[str | None, list[float | None]]:
        """The last two columns of the log's row; `record` is None where the features were not needed to answer."""
        if record is None:
            record = self._record_of(view, entity)
        return self._inputs(record), self._outputs(version or view.stable, outputs)

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
