"""Requests, by the number of what they ask for, and checks of answers: each contender has its own of both."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import orjson

from tests.bench.hits.entities import ENTITIES, OUTPUT, document_of, entity_of, owner_of

BATCH_ENTITIES = 100


class Fault(NamedTuple):
    """What is wrong with an answer of status 200. A crossover is somebody else's entity or value."""

    said: str
    is_crossover: bool


Check = Callable[[int, bytes], Fault | None]
Write = Callable[[int], bytes]


class Draw:
    """Entities by Zipf 1.0, or evenly. Which are hot is drawn too, so that they are not neighbours anywhere."""

    def __init__(self, seed: int) -> None:
        self._of_rank = np.random.default_rng(seed).permutation(ENTITIES)
        odds = 1.0 / np.arange(1, ENTITIES + 1)
        self._until = np.cumsum(odds) / odds.sum()

    def numbers(self, count: int, seed: int, is_skewed: bool = True) -> list[int]:
        """The same for the same seed."""
        uniform = np.random.default_rng(seed).random(count)
        ranks = (
            np.searchsorted(self._until, uniform, side="right") if is_skewed else (uniform * ENTITIES).astype(int)
        )
        drawn: list[int] = self._of_rank[np.minimum(ranks, ENTITIES - 1)].tolist()
        return drawn


def get(path: str) -> Write:
    """`path` with `{}` where the entity goes."""
    head, tail = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".split("{}")
    return lambda number: f"{head}{entity_of(number)}{tail}".encode()


def post(path: str, document: Callable[[int], object]) -> Write:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "

    def write(number: int) -> bytes:
        body = orjson.dumps(document(number))
        return f"{head}{len(body)}\r\n\r\n".encode() + body

    return write


def batch_of(number: int) -> list[int]:
    """The entities of batch `number`: all different, and 1,000 batches before one is asked for again."""
    place = number % (ENTITIES // BATCH_ENTITIES) * BATCH_ENTITIES
    return _SHUFFLED[place : place + BATCH_ENTITIES]


_SHUFFLED: list[int] = np.random.default_rng(0).permutation(ENTITIES).tolist()


def batch_document(number: int) -> object:
    return {"items": [entity_of(one) for one in batch_of(number)]}


def is_constant(body: bytes) -> Check:
    return lambda _, answered: None if answered == body else Fault("not the constant", False)


def is_document(number: int, body: bytes) -> Fault | None:
    """Of the product, and of whoever answers as it does."""
    try:
        return _fault(number, orjson.loads(body))
    except (ValueError, TypeError, KeyError, AttributeError):
        return Fault(f"no prediction: {body[:200]!r}", False)


def is_batch(number: int, body: bytes) -> Fault | None:
    """All results, in order; the first fault is told."""
    try:
        results = orjson.loads(body)["results"]
        asked = batch_of(number)
        if len(results) != len(asked):
            return Fault(f"{len(results)} results for {len(asked)} entities", False)
        faults = [fault for pair in zip(asked, results, strict=True) if (fault := _fault(*pair)) is not None]
    except (ValueError, TypeError, KeyError, AttributeError):
        return Fault(f"no predictions: {body[:200]!r}", False)
    if not faults:
        return None
    return Fault(f"{len(faults)} in a batch, as: {faults[0].said}", any(fault.is_crossover for fault in faults))


def is_feast_document(number: int, body: bytes) -> Fault | None:
    """Feast answers in columns, with float32 written out in full."""
    try:
        document = orjson.loads(body)
        names = document["metadata"]["feature_names"]
        entity, value = (document["results"][names.index(name)]["values"][0] for name in ("entity", OUTPUT))
        return _fault_of(number, entity, round(value, 6))
    except (ValueError, TypeError, KeyError, IndexError):
        return Fault(f"no features: {body[:200]!r}", False)


def _fault(number: int, document: Mapping[str, object]) -> Fault | None:
    wanted = _wanted(number)
    if all(document[name] == value for name, value in wanted):
        return None
    outputs = document["outputs"]
    assert isinstance(outputs, dict)
    if fault := _fault_of(number, document["entity"], outputs[OUTPUT]):
        return fault
    name, value = next((name, value) for name, value in wanted if document[name] != value)
    return Fault(f"{entity_of(number)}: {name} is {document[name]!r}, not {value!r}", False)


def _fault_of(number: int, entity: object, value: float) -> Fault | None:
    wanted = document_of(number)["outputs"][OUTPUT]  # type: ignore[index]
    if entity != entity_of(number):
        return Fault(f"asked for {entity_of(number)}, told of {entity!r}", True)
    if value != wanted:
        is_others = owner_of(value) is not None
        return Fault(f"{entity}: {value!r} instead of {wanted!r}{', the value of another' * is_others}", is_others)
    return None


_documents: dict[int, Sequence[tuple[str, object]]] = {}


def _wanted(number: int) -> Sequence[tuple[str, object]]:
    if number not in _documents:
        _documents[number] = tuple(document_of(number).items())
    return _documents[number]
