"""Bodies of the protocol: what is sent reads back as it was, and no answer, whatever it is, breaks the reader."""

import subprocess
import sys

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn
from pydantic import ValidationError

from online.api.live.foreign.naming import ForeignModel
from online.api.settings import ApiSettings
from schemas.open_inference import HEADER_LENGTH, BadAnswer, answer_outputs, error_text, request_body
from tests.support.api_process import ROOT

ROWS = st.integers(1, 5)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(ROWS.flatmap(lambda n: stn.arrays(np.float32, (n, 2), elements=FLOATS)), st.booleans())
def test_numbers_survive_to_the_last_bit(values: np.ndarray, binary: bool) -> None:
    body = request_body(["x"], [values], ["y"], 1000, binary)
    length = int(body.headers.get(HEADER_LENGTH, len(body.content)))
    head = orjson.loads(body.content[:length])
    (told,) = head["inputs"]
    assert (told["shape"], told["datatype"]) == (list(values.shape), "FP32")
    assert head["parameters"]["timeout"] == 1000
    if binary:
        read = np.frombuffer(body.content[length:], "<f4")
        assert told["parameters"]["binary_data_size"] == values.nbytes
        assert head["outputs"] == [{"name": "y", "parameters": {"binary_data": True}}]
    else:
        read = np.array(told["data"]).astype(np.float32)
        assert head["outputs"] == [{"name": "y"}]
    np.testing.assert_array_equal(read.reshape(values.shape), values)


def test_a_tensor_that_is_not_contiguous_and_large_integers() -> None:
    ids = np.array([[1, 2], [2**62, 4]], np.int64).T
    for binary in (False, True):
        body = request_body(["x"], [ids], [], 1, binary)
        length = int(body.headers.get(HEADER_LENGTH, len(body.content)))
        (told,) = orjson.loads(body.content[:length])["inputs"]
        read = np.frombuffer(body.content[length:], "<i8").tolist() if binary else told["data"]
        assert read == [1, 2**62, 2, 4]
        assert told["datatype"] == "INT64"


@given(st.binary(max_size=200), st.one_of(st.none(), st.text(max_size=4), st.integers(0, 300).map(str)))
def test_any_bytes_are_an_answer_or_none(content: bytes, length: str | None) -> None:
    with pytest.raises(BadAnswer):
        answer_outputs(content, length, 1, [], ["y"], 1)
    assert len(error_text(content)) <= 300


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats() | st.sampled_from(["y", "FP32", "INT64", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["binary_data_size", "a"]), inner),
    max_leaves=6,
)
OUTPUTS = st.fixed_dictionaries(
    {}, optional={"name": JSON, "shape": JSON, "datatype": JSON, "data": JSON, "parameters": JSON}
)


@given(st.lists(OUTPUTS | JSON, max_size=3), st.binary(max_size=16))
def test_any_outputs_are_an_answer_or_none(outputs: list[object], tail: bytes) -> None:
    head = orjson.dumps({"outputs": outputs})
    try:
        found = answer_outputs(head + tail, str(len(head)), 1, [], ["y"], 1)
    except BadAnswer:
        return
    assert (found.shape, found.dtype) == ((1, 1), np.float32)


def test_outputs_are_found_by_name_where_there_are_several() -> None:
    def item(name: str, value: float) -> dict[str, object]:
        return {"name": name, "shape": [1], "datatype": "FP64", "data": [value]}

    content = orjson.dumps({"outputs": [item("b", 2.0), item("extra", 9.0), item("a", 1.0)]})
    assert answer_outputs(content, None, 1, [], ["a", "b"], 2).tolist() == [[1.0, 2.0]]
    assert answer_outputs(content, None, 1, ["b", "a"], ["late", "minutes"], 2).tolist() == [[2.0, 1.0]]
    with pytest.raises(BadAnswer, match="'late', 'minutes'"):
        answer_outputs(content, None, 1, [], ["late", "minutes"], 2)


def test_an_output_of_several_columns_is_one_tensor_of_theirs() -> None:
    vector = {"name": "v", "shape": [2, 3], "datatype": "FP32", "data": [1, 2, 3, 4, 5, 6]}
    number = {"name": "late", "shape": [2], "datatype": "FP32", "data": [7, 8]}
    content = orjson.dumps({"outputs": [number, vector]})
    assert answer_outputs(content, None, 2, [], ["v", "late"], 4).tolist() == [[1, 2, 3, 7], [4, 5, 6, 8]]
    with pytest.raises(BadAnswer, match="4 values a row instead of 5"):
        answer_outputs(content, None, 2, [], ["v", "late"], 5)


SERVERS = {"foreign_urls": ["http://h:1"]}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"foreign_urls": ["127.0.0.1:8000"]}, "http://host:port"),
        ({"foreign_urls": ["http://user:secret@host"]}, "http://host:port"),
        ({"foreign_models": {"delay": {"model": "x"}}}, "no server in API_FOREIGN_URLS"),
        ({**SERVERS, "foreign_models": {"other": {"model": "x"}}}, "other is not among API_MODELS"),
        ({**SERVERS, "foreign_models": {"delay": {"modell": "x"}}}, "modell"),
        ({**SERVERS, "foreign_models": {"delay": {"model": "x", "outputs": ["a", "a"]}}}, "twice"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        ApiSettings(**settings)


def test_the_http_client_is_loaded_only_where_it_is_used() -> None:
    code = "import sys, online.api.service; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_FOREIGN_URLS", '["http://triton:8000/", "https://other/base"]')
    monkeypatch.setenv("API_FOREIGN_MODELS", '{"delay": {"model": "d", "version": {"7": "3"}, "outputs": ["a"]}}')
    settings = ApiSettings()
    assert settings.foreign_urls == ("http://triton:8000", "https://other/base")
    named = settings.foreign_models["delay"]
    assert named == ForeignModel(model="d", version={"7": "3"}, outputs=("a",))
    assert (named.has("7"), named.version_for("7"), named.has("8")) == (True, "3", False)
