"""What is wrong with an answer, held against what was asked and the eras that were live meanwhile."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import orjson

from tests.soak.asking import Asked, Item
from tests.soak.known import MODEL, OUTPUT, Era, meaning_of

# What faults of Redis, of the live tier and short deadlines may cost.
_EXCUSED = frozenset({"deadline_exceeded", "live_unavailable", "features_unavailable", "overloaded"})
_UNKNOWN = "unknown_entity"
_STORED, _LIVE = ("precomputed",), ("cached", "live")


class Reply(NamedTuple):
    """`headers` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Fault(NamedTuple):
    """A crossover is somebody else's answer, or that of another generation or version."""

    said: str
    is_crossover: bool = False


def documents_of(asked: Asked, reply: Reply) -> list[dict[str, object]]:
    """A result or problem for each item; one problem where a batch as a whole is refused; none of a 304."""
    if reply.status == 304:
        return []
    document = orjson.loads(reply.body)
    return list(document["results"]) if asked.is_batch and reply.status == 200 else [document]


def faults_of(
    asked: Asked, reply: Reply, documents: Sequence[Mapping[str, object]], eras: Sequence[Era]
) -> Iterator[Fault]:
    if reply.headers.get("x-request-id") != asked.request_id:
        yield Fault(f"the answer to request {reply.headers.get('x-request-id')}", is_crossover=True)
    if reply.status == 304:
        yield from _faults_of_copy(asked, reply, eras)
    elif asked.is_batch and reply.status != 200:
        if documents[0]["code"] not in _EXCUSED:
            yield Fault(f"{documents[0]['code']} {reply.status}")
    elif len(documents) != len(asked.items):
        yield Fault(f"{len(documents)} results of {len(asked.items)}")
    else:
        for item, document in zip(asked.items, documents, strict=True):
            if (fault := _fault_of(asked.request_id, item, document, eras)) is not None:
                yield fault


def _faults_of_copy(asked: Asked, reply: Reply, eras: Sequence[Era]) -> Iterator[Fault]:
    """The client is told that what it has is still right."""
    if asked.copy is None or reply.headers.get("etag") != asked.copy.etag:
        yield Fault(f"not modified, but {reply.headers.get('etag')}", is_crossover=True)
    elif (fault := _fault_of_answer(asked.items[0], asked.copy.document, eras)) is not None:
        yield fault._replace(said=f"not modified: {fault.said}")


def _fault_of(request_id: str, item: Item, document: Mapping[str, object], eras: Sequence[Era]) -> Fault | None:
    if document.get("request_id") != request_id:
        return Fault(f"request {document.get('request_id')}", is_crossover=True)
    if document.get("entity") != item.entity:
        return Fault(f"entity {document.get('entity')}", is_crossover=True)
    if "code" not in document:
        return _fault_of_answer(item, document, eras)
    code = document["code"]
    if code in _EXCUSED or (code == _UNKNOWN and item.place is None):
        return None
    return Fault(f"{code} {document.get('status')}", is_crossover=code == _UNKNOWN)


def _fault_of_answer(item: Item, document: Mapping[str, object], eras: Sequence[Era]) -> Fault | None:
    """Entity, version, generation and value fit together, and were live."""
    outputs, source = document["outputs"], document["source"]
    meaning = meaning_of(outputs.get(OUTPUT)) if isinstance(outputs, dict) else None
    said = f"{source} {document['version']} {document['generation']} {outputs}"
    if meaning is None or document["model"] != MODEL or source not in (*_STORED, *_LIVE):
        return Fault(said)
    mark, place = meaning
    if place != item.place:
        return Fault(f"somebody else's: {said}", is_crossover=True)
    if source in _STORED and not item.is_brought:
        found = (document["version"], document["generation"], document["computed_at"], mark)
        right = {(era.version, era.generation, era.computed_at, era.stored) for era in eras}
    else:
        found = (document["version"], document["generation"], source in _LIVE, mark)
        right = {(era.version, None, True, era.live) for era in eras}
    return None if found in right else Fault(f"of no live generation: {said}", is_crossover=True)
