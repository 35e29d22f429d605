"""Requests drawn by seed: one entity or many, of all kinds, with the bytes to send and what they are about."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

import orjson

from tests.soak.known import BROUGHT, FEATURE, MODEL, NAMES, brought_place, place_of

_KINDS, _ODDS = ("get", "post", "brought", "batch"), (60, 15, 15, 10)
_BATCH_SIZES = (2, 5, 20, 60)
_UNKNOWN, _BROUGHT_IN_BATCH, _IMPATIENT, _FRESH, _AGAIN = 0.02, 0.2, 0.05, 0.03, 0.1


class Item(NamedTuple):
    """`place`: what the answer must be computed from; None of an entity that nobody knows."""

    entity: str
    place: int | None
    is_brought: bool = False

    @property
    def document(self) -> object:
        if not self.is_brought:
            return self.entity
        return {"entity": self.entity, "features": {FEATURE: self.place}}


class Copy(NamedTuple):
    """An answer that a client has kept, to ask whether it still holds: its tag and what it said."""

    etag: str
    document: Mapping[str, object]


class Asked(NamedTuple):
    """One request. `copy` is what `If-None-Match` names."""

    request_id: str
    items: tuple[Item, ...]
    is_batch: bool
    raw: bytes
    copy: Copy | None = None


class Draw:
    """One client's requests; `copies` are of its earlier answers, by what they are about."""

    def __init__(self, seed: str) -> None:
        self._random, self._seed, self._count = Random(seed), seed, 0
        self.copies: dict[Item, Copy] = {}

    def request(self) -> Asked:
        kind = self._random.choices(_KINDS, _ODDS)[0]
        if kind == "batch":
            size = self._random.choice(_BATCH_SIZES)
            return self.batch_of([self._item(_BROUGHT_IN_BATCH) for _ in range(size)])
        request_id, item = self._request_id(), self._item(float(kind == "brought"))
        if kind == "get":
            # Drawn in any case: what follows shall not depend on which answers have come.
            again = self._random.random() / _AGAIN
            if self.copies and again < 1:
                item = list(self.copies)[int(again * len(self.copies))]
            return self._get(request_id, item)
        body = orjson.dumps(item.document if item.is_brought else {"entity": item.entity})
        return Asked(request_id, (item,), False, _post("predict", request_id, self._whims(), body))

    def batch_of(self, items: Sequence[Item], is_whimsical: bool = True) -> Asked:
        """Without whims: no deadline and no freshness of its own."""
        request_id = self._request_id()
        body = orjson.dumps({"items": [item.document for item in items]})
        whims = self._whims() if is_whimsical else ""
        return Asked(request_id, tuple(items), True, _post("predictions:batch", request_id, whims, body))

    def _request_id(self) -> str:
        self._count += 1
        return f"{self._seed}/{self._count}"

    def _item(self, brought: float) -> Item:
        """Some entities are asked for much more often than others, so that misses coincide."""
        number = int(len(NAMES) * self._random.random() ** 2)
        if self._random.random() < brought:
            return Item(NAMES[number], brought_place(int(BROUGHT * self._random.random() ** 2)), True)
        if self._random.random() < _UNKNOWN:
            return Item(f"u{number:05d}", None)
        # Odd numbers from the cold end: both halves have some that are asked for often.
        number = len(NAMES) - number if number % 2 else number
        return Item(NAMES[number], place_of(number))

    def _get(self, request_id: str, item: Item) -> Asked:
        copy = self.copies.get(item)
        line = f"If-None-Match: {copy.etag}\r\n" if copy else ""
        raw = _head(f"GET /v1/models/{MODEL}/predictions/{item.entity}", request_id, self._whims() + line)
        return Asked(request_id, (item,), False, raw, copy)

    def _whims(self) -> str:
        lines = ""
        if self._random.random() < _IMPATIENT:
            lines += f"X-Deadline-Ms: {self._random.randint(20, 300)}\r\n"
        if self._random.random() < _FRESH:
            lines += f"Cache-Control: {self._random.choice(('no-cache', 'max-age=1'))}\r\n"
        return lines


def _post(what: str, request_id: str, lines: str, body: bytes) -> bytes:
    lines += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return _head(f"POST /v1/models/{MODEL}/{what}", request_id, lines) + body


def _head(line: str, request_id: str, lines: str) -> bytes:
    return f"{line} HTTP/1.1\r\nHost: soak\r\nX-Request-Id: {request_id}\r\n{lines}\r\n".encode()
