"""The load generator against a small real server."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer

import numpy as np
import pytest

from tests.bench.load.files import Report, read_report, write_report
from tests.bench.load.generator import Generator, Target

Reply = Callable[[bytes, socket.socket], bytes | None]


class Server(ThreadingTCPServer):
    allow_reuse_address, daemon_threads = True, True


@contextmanager
def answering(reply: Reply) -> Iterator[Target]:
    """Each line is a request; None closes its connection."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                answer = reply(line.strip(), self.connection)
                if answer is None:
                    return
                self.wfile.write(answer)

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield Target("127.0.0.1", server.server_address[1], connections=2)
        server.shutdown()


def http(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def lines(count: int) -> list[bytes]:
    return [b"%d\n" % number for number in range(count)]


def test_each_request_is_sent_in_time_and_gets_its_own_answer() -> None:
    at_s = [0.01 * place for place in range(40)]
    with answering(lambda line, _: http(line)) as target:
        sent = Generator(target, at_s, lines(40)).run(patience_s=2.0)
    assert [raw.rpartition(b"\n")[2] for raw in sent.answers] == [line.strip() for line in lines(40)]
    late_s = np.array(sent.sent_s) - at_s
    assert late_s.min() > -0.001
    assert np.median(late_s) < 0.005
    assert (np.array(sent.done_s) > sent.sent_s).all()
    assert sent.connections >= 2


def test_a_slow_answer_does_not_hold_up_later_requests() -> None:
    def reply(line: bytes, _: socket.socket) -> bytes:
        time.sleep(0.3 if line == b"0" else 0.0)
        return http(line)

    with answering(reply) as target:
        sent = Generator(target, [0.0, 0.02, 0.04, 0.06], lines(4)).run(patience_s=2.0)
    assert sent.done_s[0] > 0.29
    assert max(sent.done_s[1:]) < 0.25


def test_an_answer_in_pieces_is_one_answer() -> None:
    def reply(line: bytes, connection: socket.socket) -> bytes:
        whole = http(line * 3)
        for piece in (whole[:9], whole[9:40]):
            connection.sendall(piece)
            time.sleep(0.02)
        return whole[40:]

    with answering(reply) as target:
        sent = Generator(target, [0.0], [b"abc\n"]).run(patience_s=2.0)
    assert sent.answers[0] == http(b"abc" * 3)


@pytest.mark.parametrize("bad", [None, b"no HTTP at all\r\n\r\n", http(b"x") + http(b"y")])
def test_a_broken_answer_is_none_and_the_others_go_on(bad: bytes | None) -> None:
    with answering(lambda line, _: bad if line == b"1" else http(line)) as target:
        sent = Generator(target, [0.0, 0.02, 0.04, 0.06], lines(4)).run(patience_s=1.0)
    assert [bool(raw) for raw in sent.answers] == [True, False, True, True]
    assert sent.done_s[1] == np.inf


def test_patience_ends() -> None:
    with answering(lambda line, _: time.sleep(0.8) or http(line)) as target:
        began_s = time.perf_counter()
        sent = Generator(target, [0.0], lines(1)).run(patience_s=0.2)
        assert time.perf_counter() - began_s < 0.6
    assert sent.answers == [b""]


def test_a_request_that_finds_all_connections_busy_waits_with_its_clock_running() -> None:
    def reply(line: bytes, _: socket.socket) -> bytes:
        time.sleep(0.1)
        return http(line)

    with answering(reply) as target:
        only = Target(target.host, target.port, connections=1, max_connections=1)
        sent = Generator(only, [0.0, 0.01, 0.02], lines(3)).run(patience_s=2.0)
    assert sent.connections == 1
    assert np.array(sent.sent_s) == pytest.approx([0.0, 0.1, 0.2], abs=0.05)


def test_a_report_comes_back_from_its_file_as_it_was(tmp_path) -> None:
    report = Report(np.array([0.1, 0.2]), np.array([0.3, np.inf]), [b"abc", b""], 7, 0.25)
    write_report(tmp_path, report)
    read = read_report(tmp_path)
    assert read.sent_s.tolist() == [0.1, 0.2]
    assert read.done_s.tolist() == [0.3, np.inf]
    assert (read.answers, read.connections, read.cpu_share) == ([b"abc", b""], 7, 0.25)


def test_a_request_waits_for_a_connection_also_where_the_one_before_broke_its_own() -> None:
    def reply(line: bytes, _: socket.socket) -> bytes | None:
        time.sleep(0.1)
        return None if line == b"0" else http(line)

    with answering(reply) as target:
        only = Target(target.host, target.port, connections=1, max_connections=1)
        sent = Generator(only, [0.0, 0.01], lines(2)).run(patience_s=2.0)
    assert [bool(raw) for raw in sent.answers] == [False, True]
