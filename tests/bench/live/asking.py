"""Requests whose answers are known, and the check of every answer after the run."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose

import orjson

from tests.bench.known import features_of, outputs_of
from tests.bench.load.answer import Answer

_LIVE = "live"


@dataclass(frozen=True)
class Server:
    """Where requests go."""

    host: str
    port: int
    path: str


class Requests:
    """Numbers that are not used twice in a run of the benchmark, so that no answer can come from a cache."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def take(self, count: int) -> list[int]:
        return list(itertools.islice(self._numbers, count))


def request_bytes(server: Server, number: int, headers: Mapping[str, str]) -> bytes:
    """A whole HTTP request."""
    body = request_body(number)
    lines = [
        f"POST {server.path} HTTP/1.1",
        f"Host: {server.host}:{server.port}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def request_body(number: int) -> bytes:
    return orjson.dumps({"entity": entity_of(number), "features": features_of(number)})


def entity_of(number: int) -> str:
    return f"r{number}"


def wrong_answers(numbers: Sequence[int], answers: Sequence[Answer | None]) -> list[str]:
    """In words, the answers with status 200 that are not right, not live, or another request's."""
    wrong = []
    for number, answer in zip(numbers, answers, strict=True):
        if answer is not None and answer.status == 200 and (reason := _wrong(number, answer.body)):
            wrong.append(f"request {number}: {reason}")
    return wrong


def _wrong(number: int, body: bytes) -> str:
    try:
        document = orjson.loads(body)
        entity, outputs = document["entity"], document["outputs"]
        # Servers of others do not say where an answer comes from.
        source = document.get("source", _LIVE)
        expected = outputs_of(features_of(number))
        if entity != entity_of(number):
            return f"the answer is about {entity}"
        if source != _LIVE:
            return f"answered from {source}"
        for name, value in expected.items():
            if not isclose(outputs[name], value, rel_tol=1e-6, abs_tol=1e-4):
                return f"{name} is {outputs[name]}, not {value}"
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return f"no prediction: {body[:200]!r}"
    return ""
