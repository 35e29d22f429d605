"""The closed loop against a small real server, and the way of an order through its process."""

import socket
import time

import numpy as np

from tests.bench.load.client import offer
from tests.bench.load.closed import ClosedLoop
from tests.bench.load.connection import Target
from tests.bench.load.files import Order
from tests.unit.bench.test_generator import answering, http, lines


def loop_over(target: Target, connections: int, requests: list[bytes]) -> ClosedLoop:
    return ClosedLoop(Target(target.host, target.port, connections, connections), requests)


def test_each_connection_has_one_request_in_flight_and_answers_are_their_own() -> None:
    def reply(line: bytes, _: socket.socket) -> bytes:
        time.sleep(0.02)
        return http(line)

    with answering(reply) as target:
        sent = loop_over(target, 3, lines(5)).run(duration_s=0.3, patience_s=1.0)
    bodies = [raw.rpartition(b"\n")[2] for raw in sent.answers]
    assert bodies == [b"%d" % (place % 5) for place in range(len(bodies))]
    sent_s, done_s = np.array(sent.sent_s), np.array(sent.done_s)
    in_flight = [int(((sent_s <= at) & (done_s > at)).sum()) for at in sent_s]
    assert max(in_flight) == 3
    assert 18 <= len(bodies) <= 3 * 16
    assert sent.connections == 3


def test_nothing_is_sent_after_its_time_and_all_is_answered() -> None:
    with answering(lambda line, _: http(line)) as target:
        sent = loop_over(target, 2, lines(3)).run(duration_s=0.1, patience_s=1.0)
    assert max(sent.sent_s) < 0.11
    assert np.isfinite(sent.done_s).all()


def test_a_large_answer_in_pieces_is_one_answer() -> None:
    body = b"x" * 3_000_000
    with answering(lambda _, __: http(body)) as target:
        sent = loop_over(target, 1, [b"abc\n"]).run(duration_s=0.05, patience_s=5.0)
    assert set(sent.answers) == {http(body)}


def test_a_broken_connection_is_one_request_without_an_answer_and_another_goes_on() -> None:
    with answering(lambda line, _: None if line == b"1" else http(line)) as target:
        sent = loop_over(target, 1, lines(50)).run(duration_s=0.2, patience_s=1.0)
    lost = [place % 50 for place, raw in enumerate(sent.answers) if not raw]
    assert set(lost) == {1}
    assert len(sent.answers) > 10
    assert np.isinf(np.array(sent.done_s)[1])


def test_patience_ends() -> None:
    with answering(lambda line, _: time.sleep(0.8) or http(line)) as target:
        began_s = time.perf_counter()
        sent = loop_over(target, 1, lines(1)).run(duration_s=0.1, patience_s=0.1)
        assert time.perf_counter() - began_s < 0.6
    assert sent.answers == [b""]


def test_an_order_goes_to_the_process_and_its_answers_come_back() -> None:
    with answering(lambda line, _: http(line)) as target:
        one = Target(target.host, target.port, 2, 2)
        report = offer(Order(one, np.empty(0), lines(7), patience_s=1.0, closed_s=0.2))
    bodies = [raw.rpartition(b"\n")[2] for raw in report.answers]
    assert len(bodies) > 7
    assert bodies == [b"%d" % (place % 7) for place in range(len(bodies))]
    assert report.connections == 2
    assert 0 < report.cpu_share < 1.5
