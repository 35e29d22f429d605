"""The hand-written parsing accepts what the documented models accept, and nothing else."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from online.api.answering.outcome import Item
from online.api.http.body import parse_batch, parse_json, parse_predict
from online.api.http.head import (
    Head,
    Kind,
    deadline_of,
    decode_entity,
    request_id_of,
    target_of,
)
from online.errors import InvalidEntity, InvalidRequest, ServingError
from schemas.http import BatchRequest, PredictRequest

VALUES = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5)
ENTITIES = st.text(max_size=300) | VALUES
ITEMS = st.fixed_dictionaries(
    {"entity": ENTITIES},
    optional={
        "features": st.none() | st.dictionaries(st.text(max_size=4), VALUES, max_size=3) | VALUES,
        "more": VALUES,
    },
)
DOCUMENTS = (
    ITEMS | VALUES | st.lists(VALUES, max_size=2) | st.dictionaries(st.text(max_size=8), VALUES, max_size=2)
)


def is_allowed(model: type[PredictRequest] | type[BatchRequest], document: object) -> bool:
    try:
        model.model_validate(document)
    except ValidationError:
        return False
    return True


@given(DOCUMENTS)
def test_predict_requests(document: object) -> None:
    try:
        item = parse_predict(document)
    except ServingError:
        assert not is_allowed(PredictRequest, document)
    else:
        assert is_allowed(PredictRequest, document)
        assert item.raw == item.entity.encode()


@given(st.lists(ITEMS | ENTITIES, max_size=4))
def test_batch_requests(items: list[object]) -> None:
    document = {"items": items}
    try:
        parsed = parse_batch(document)
    except InvalidRequest:
        assert not items
        return
    assert is_allowed(BatchRequest, document) or any(isinstance(found, ServingError) for found in parsed)
    for given_item, found in zip(items, parsed, strict=True):
        one = given_item if isinstance(given_item, dict) else {"entity": given_item}
        assert isinstance(found, Item) == is_allowed(PredictRequest, one)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_json_or_refused(body: bytes) -> None:
    try:
        found = parse_json(body)
    except InvalidRequest:
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(body)
    else:
        assert found is None or isinstance(found, bool | int | float | str | list | dict)


@given(st.text(min_size=1).filter(lambda text: len(text.encode("utf-8", "replace")) <= 256))
def test_an_encoded_entity_comes_back(entity: str) -> None:
    raw = entity.encode()
    assert decode_entity(b"".join(b"%%%02X" % byte for byte in raw)) == entity


@pytest.mark.parametrize("encoded", [b"%", b"a%4", b"%G1", b"%%41", b"%E9"])
def test_escapes_that_are_none(encoded: bytes) -> None:
    with pytest.raises(InvalidEntity):
        decode_entity(encoded)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"/v1/models/m/predictions/a%2Fb", (Kind.GET, b"m", b"a%2Fb")),
        (b"/v1/models/m/predictions/a/b/", (Kind.GET, b"m", b"a/b/")),
        (b"/v1/models/m/predictions/", (Kind.GET, b"m", b"")),
        (b"/v1/models/m%2E1/predict", (Kind.PREDICT, b"m.1", b"")),
        (b"/v1/models/m/predictions:batch", (Kind.BATCH, b"m", b"")),
        (b"/v1/models/m/predictions%3Abatch", (Kind.BATCH, b"m", b"")),
        (b"/v1/models/m", None),
        (b"/v1/models/m/predictions", None),
        (b"/v1/models/m/predict/", None),
        (b"/healthz", None),
    ],
)
def test_targets(path: bytes, expected: tuple[object, ...] | None) -> None:
    assert target_of(path) == expected


@given(st.binary(max_size=300))
def test_request_ids_are_visible_and_bounded(given_id: bytes) -> None:
    found = request_id_of(given_id)
    assert 1 <= len(found) <= 128
    assert found.isascii()
    assert found.isprintable()
    assert " " not in found


def test_made_request_ids_differ() -> None:
    assert len({request_id_of(None) for _ in range(1000)}) == 1000


def test_deadlines_only_shorten() -> None:
    def asked(value: bytes | None) -> int:
        return deadline_of(Head("r", value, b"", None), 2000)

    assert (asked(None), asked(b"50"), asked(b"99999")) == (2000, 50, 2000)
