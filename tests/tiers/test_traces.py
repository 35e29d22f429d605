"""One trace through both tiers, by what a real receiver of OTLP gets."""

from tests.support.api_process import wait_for
from tests.tiers.conftest import Tiers
from tests.tiers.receiver import Received

TRACE, SENDER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
API_PARTS = {"route", "lookup", "features", "live", "post"}
WORKER_PARTS = {"queue", "batch", "execute"}


def header(trace: str = TRACE, is_sampled: bool = True) -> dict[str, str]:
    return {"traceparent": f"00-{trace}-{SENDER}-0{int(is_sampled)}"}


def by_name(spans: list[Received]) -> dict[str, Received]:
    found = {one.span.name: one for one in spans}
    assert len(found) == len(spans)
    return found


def test_a_live_answer_is_one_trace_through_both_tiers(tiers: Tiers) -> None:
    answer = tiers.get("e30", **header())
    assert answer.json()["source"] == "live"
    wait_for(lambda: len(tiers.receiver.of(TRACE)) >= 10, what="the spans of both tiers")
    spans = by_name(tiers.receiver.of(TRACE))
    root = spans["GET /v1/models/{model}/predictions/{entity}"]
    assert root.span.parent_span_id.hex() == SENDER
    inference, live = spans["inference"], spans["live"]
    assert (root.service, live.service, inference.service) == ("hotset-api", "hotset-api", "hotset-inference")
    assert inference.span.parent_span_id == live.span.span_id
    for names, parent in ((API_PARTS, root), (WORKER_PARTS, inference)):
        assert {spans[name].span.parent_span_id for name in names} == {parent.span.span_id}
    assert root.told["hotset.request_id"] == answer.headers["x-request-id"]
    assert (root.told["hotset.source"], root.told["hotset.miss_reason"]) == ("live", "not_selected")
    assert (root.told["http.response.status_code"], inference.told["hotset.rows"]) == (200, 1)
    slack_ns = 50_000_000  # two processes' clocks are read at moments of their own
    for one in spans.values():
        assert root.span.start_time_unix_nano - slack_ns <= one.span.start_time_unix_nano
        assert one.span.start_time_unix_nano <= one.span.end_time_unix_nano
        assert one.span.end_time_unix_nano <= root.span.end_time_unix_nano + slack_ns


def test_hits_errors_and_batches(tiers: Tiers) -> None:
    traces = [f"{place:032x}" for place in range(1, 5)]
    assert tiers.get("e1", **header(traces[0])).json()["source"] == "precomputed"
    assert tiers.get("nobody", **header(traces[1])).status_code == 404
    items = {"items": ["e1", "e31"]}
    tiers.api.client.post("/v1/models/tiny/predictions:batch", json=items, headers=header(traces[2]))
    tiers.api.client.post("/v1/models/tiny/predict", content=b"{", headers=header(traces[3]))
    wait_for(lambda: all(tiers.receiver.of(trace) for trace in traces), what="the spans")
    hit, error, batch, refused = (by_name(tiers.receiver.of(trace)) for trace in traces)
    assert hit.keys() == {"GET /v1/models/{model}/predictions/{entity}", "route", "lookup", "post"}
    assert error["GET /v1/models/{model}/predictions/{entity}"].told["error.type"] == "unknown_entity"
    assert batch["POST /v1/models/{model}/predictions:batch"].told["hotset.entities"] == 2
    assert "live" in batch
    assert refused["POST /v1/models/{model}/predict"].told["error.type"] == "invalid_request"


def test_an_answer_to_brought_features_is_one_trace_too(tiers: Tiers) -> None:
    trace, features = f"{6:032x}", {"distance": 3.0, "delay": 1.0, "airline": "AA"}
    asked = {"entity": "anybody", "features": features}
    answer = tiers.api.client.post("/v1/models/tiny/predict", json=asked, headers=header(trace))
    assert answer.json()["source"] == "live"
    wait_for(lambda: len(tiers.receiver.of(trace)) >= 10, what="the spans of both tiers")
    spans = by_name(tiers.receiver.of(trace))
    assert spans["inference"].span.parent_span_id == spans["live"].span.span_id


def test_what_is_not_sampled_or_no_trace_leaves_none(tiers: Tiers) -> None:
    """The share of requests without a trace is 0 here."""
    unsampled, after = f"{7:032x}", f"{8:032x}"
    before = tiers.receiver.traces
    tiers.get("e2", **header(unsampled, is_sampled=False))
    tiers.get("e2", traceparent="00-not-a-trace-01")
    tiers.get("e2")
    tiers.get("e2", **header(after))
    wait_for(lambda: len(tiers.receiver.of(after)) == 4, what="the spans of the last")
    assert tiers.receiver.traces - before == {after}


def test_sent_spans_are_counted(tiers: Tiers) -> None:
    trace = f"{9:032x}"
    tiers.get("e3", **header(trace))
    wait_for(lambda: len(tiers.receiver.of(trace)) == 4, what="the spans")

    def is_counted() -> bool:
        received = [one for one in list(tiers.receiver.spans) if one.service == "hotset-api"]
        return tiers.scraped()[0].total("hotset_events_total", part="traces", event="sent") == len(received)

    wait_for(is_counted, what="the count")
