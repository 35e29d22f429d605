import orjson
import pytest

from tests.bench.known import features_of, outputs_of
from tests.bench.live.asking import Requests, Server, request_body, request_bytes, wrong_answers
from tests.bench.load.answer import Answer

SERVER = Server("127.0.0.1", 80, "/predict")


def answer(number: int, status: int = 200, **changes: object) -> Answer:
    document = {"entity": f"r{number}", "source": "live", "outputs": outputs_of(features_of(number)), **changes}
    return Answer(status, b"", orjson.dumps(document))


def test_no_two_requests_have_the_same_features_and_each_says_its_number() -> None:
    numbers = [*range(10_000), 2**24 - 1]
    assert len({tuple(features_of(number).values()) for number in numbers}) == len(numbers)
    assert [outputs_of(features_of(number))["number"] for number in numbers] == numbers


def test_numbers_are_never_taken_twice() -> None:
    requests = Requests()
    assert set(requests.take(100)).isdisjoint(requests.take(100))


def test_a_request_is_whole_http() -> None:
    raw = request_bytes(SERVER, 5, {"X-Deadline-Ms": "250"})
    head, _, body = raw.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1:80\r\n")
    assert b"X-Deadline-Ms: 250" in head
    assert f"Content-Length: {len(body)}".encode() in head
    assert orjson.loads(body) == {"entity": "r5", "features": features_of(5)}
    assert body == request_body(5)


def test_right_answers_refusals_and_missing_ones_are_not_wrong() -> None:
    assert wrong_answers([1, 2, 3], [answer(1), answer(2, status=503, outputs={}), None]) == []


@pytest.mark.parametrize(
    "given",
    [
        answer(8),
        answer(7, entity="r8"),
        answer(7, outputs=outputs_of(features_of(8))),
        answer(7, outputs={"number": 7.0}),
        answer(7, outputs={"number": 7.0, "score": None}),
        answer(7, source="cached"),
        Answer(200, b"", b"[]"),
        Answer(200, b"", b"not JSON"),
    ],
)
def test_an_answer_that_is_anothers_or_cached_or_none_is_wrong(given: Answer) -> None:
    assert len(wrong_answers([7], [given])) == 1


def test_a_value_within_the_models_rounding_is_right_and_beyond_it_wrong() -> None:
    score = outputs_of(features_of(7))["score"]
    close, far = ({"number": 7.0, "score": score + by} for by in (5e-5, 5e-3))
    assert wrong_answers([7], [answer(7, outputs=close)]) == []
    assert wrong_answers([7], [answer(7, outputs=far)]) != []
