"""A trace that comes by the node's public protocol: the real `tritonclient`'s headers, a real receiver of OTLP."""

from typing import Any

import numpy as np
import tritonclient.grpc as by_grpc
import tritonclient.http as by_http

from tests.support.api_process import wait_for
from tests.tiers.conftest import Tiers
from tests.tiers.receiver import Received
from tests.tiers.test_traces import SENDER, WORKER_PARTS, by_name, header


def inputs_of(kind: Any) -> list[Any]:
    """Three rows for `linear_bundle`, as the client of a transport has them."""
    found = []
    for name, datatype, column in (
        ("numbers", "FP32", np.ones((3, 2), np.float32)),
        ("airline", "INT64", [[1]] * 3),
    ):
        given = kind(name, list(np.shape(column)), datatype)
        given.set_data_from_numpy(np.asarray(column, None if datatype == "FP32" else np.int64))
        found.append(given)
    return found


def spans_of(tiers: Tiers, trace: str) -> dict[str, Received]:
    wait_for(lambda: len(tiers.receiver.of(trace)) >= 4, what="the worker's spans")
    return by_name(tiers.receiver.of(trace))


def test_rest_and_grpc_requests_are_part_of_their_callers_trace(tiers: Tiers) -> None:
    rest, grpc = f"{0x21:032x}", f"{0x22:032x}"
    with by_http.InferenceServerClient(tiers.node.http_url.removeprefix("http://")) as client:
        client.infer("tiny", inputs_of(by_http.InferInput), headers=header(rest))
    with by_grpc.InferenceServerClient(tiers.node.grpc_address) as client:
        client.infer("tiny", inputs_of(by_grpc.InferInput), headers=header(grpc))
    for trace in (rest, grpc):
        spans = spans_of(tiers, trace)
        assert spans.keys() == {"inference", *WORKER_PARTS}
        inference = spans["inference"]
        assert (inference.service, inference.span.parent_span_id.hex()) == ("hotset-inference", SENDER)
        assert inference.told["hotset.rows"] == 3
        assert {spans[name].span.parent_span_id for name in WORKER_PARTS} == {inference.span.span_id}


def test_a_stream_is_traced_by_its_own_metadata(tiers: Tiers) -> None:
    trace, answers = f"{0x23:032x}", list[object]()

    def told(result: object, error: object) -> None:
        answers.append(error or result)

    with by_grpc.InferenceServerClient(tiers.node.grpc_address) as client:
        client.start_stream(told, headers=header(trace))
        client.async_stream_infer("tiny", inputs_of(by_grpc.InferInput))
        client.stop_stream()
    assert isinstance(answers[0], by_grpc.InferResult)
    assert spans_of(tiers, trace)["inference"].span.parent_span_id.hex() == SENDER


def test_what_is_not_sampled_or_no_trace_is_answered_and_leaves_none(tiers: Tiers) -> None:
    unsampled, after, before = f"{0x24:032x}", f"{0x25:032x}", tiers.receiver.traces
    with by_http.InferenceServerClient(tiers.node.http_url.removeprefix("http://")) as client:
        for headers in (header(unsampled, is_sampled=False), {"traceparent": "00-not-a-trace-01"}, header(after)):
            assert client.infer("tiny", inputs_of(by_http.InferInput), headers=headers).as_numpy("late").shape == (
                3,
            )
    spans_of(tiers, after)
    assert tiers.receiver.traces - before == {after}
