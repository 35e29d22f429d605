"""HTTP as clients really speak it, over raw sockets: pipelined, in pieces, chunked, closed early, unread."""

import json
import re
import socket
import time
from collections.abc import Iterator
from typing import Self

import pytest

from tests.api.conftest import World
from tests.api.fresh_world import Fresh
from tests.support.api_process import wait_for

GET = b"GET /v1/models/007/predictions/%b HTTP/1.1\r\nhost: h\r\nx-request-id: %b\r\n%b\r\n"
POST = b"POST /v1/models/007/predict HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n"
BODY = b'{"entity":"hot1"}'


class Client:
    """One connection, and what is read of it one answer at a time."""

    def __init__(self, world: World | Fresh) -> None:
        address = world.api.client.base_url
        self.socket = socket.socket()
        # Small, so that a server that writes what nobody reads is found out soon.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        self.socket.settimeout(10)
        self.socket.connect((address.host, address.port))
        self.unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.socket.close()

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.socket.sendall(piece)
            if len(pieces) > 1:
                time.sleep(0.005)

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, header and body of the next answer. Raises ConnectionError where there is none."""
        head, rest = self._until(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = int(headers.get("content-length", "0"))
        while len(rest) < length:
            rest += self._more()
        self.unread = rest[length:]
        return int(first.split()[1]), headers, rest[:length]

    def document(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.answer()[2])
        return found

    def is_ended(self) -> bool:
        return not self.unread and not self.socket.recv(1)

    def _until(self, mark: bytes) -> tuple[bytes, bytes]:
        while mark not in self.unread:
            self.unread += self._more()
        head, _, rest = self.unread.partition(mark)
        return head, rest

    def _more(self) -> bytes:
        if not (found := self.socket.recv(1 << 16)):
            raise ConnectionError("the server closed the connection")
        return found


@pytest.fixture
def client(world: World) -> Iterator[Client]:
    with Client(world) as made:
        yield made


PAIR = ("e39", "e55")  # in the generation, and written back
ANSWERED = 'hotset_answers_total{arm="",model="plain",source="precomputed"'
FROM_L1 = 'hotset_events_total{event="hits",part="l1"}'


def counted(fresh: Fresh, series: str) -> float:
    lines = fresh.api.client.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(series))


def get(entity: str, request_id: str = "r", more: bytes = b"") -> bytes:
    return GET % (entity.encode(), request_id.encode(), more)


def post(body: bytes = BODY, more: bytes = b"") -> bytes:
    return POST + b"content-length: %d\r\n%b\r\n%b" % (len(body), more, body)


def test_pipelined_requests_of_both_ways_are_answered_in_order(client: Client) -> None:
    client.send(
        get("hot1", "one")
        + b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n"
        + get("cold3", "two")
        + post()
        + b"GET /nothing HTTP/1.1\r\nhost: h\r\n\r\n"
        + get("hot2", "three")
    )
    assert client.document()["request_id"] == "one"
    assert client.document() == {"status": "alive"}
    live = client.document()
    assert (live["entity"], live["request_id"]) == ("cold3", "two")
    assert client.document()["entity"] == "hot1"
    assert client.answer()[0] == 404
    assert client.document()["request_id"] == "three"


def test_thousands_that_are_answered_at_once_may_come_together_and_are_all_counted(fresh: Fresh) -> None:
    count = 5000
    answered, from_l1 = (counted(fresh, ANSWERED), counted(fresh, FROM_L1))
    with Client(fresh) as client:
        client.send(get("e39").replace(b"models/007", b"models/plain"))
        first = client.document()
        assert first["source"] == "precomputed"
        client.send(get("e39").replace(b"models/007", b"models/plain") * count)  # from L1, so none of them waits
        for _ in range(count):
            document = client.document()
            assert (document["entity"], document["outputs"]) == ("e39", first["outputs"])
    wait_for(lambda: counted(fresh, ANSWERED) - answered >= count + 1, what="the answers in the metrics")
    assert counted(fresh, FROM_L1) - from_l1 >= count


def test_a_client_that_sends_much_and_reads_late_gets_all_of_it_in_order(fresh: Fresh) -> None:
    """Every other request is answered at once, from L1, the others after a look-up: none may overtake another."""
    with Client(fresh) as client:
        send_much_and_read_late(client)


def send_much_and_read_late(client: Client) -> None:
    padding = b"x-padding: %b\r\n" % (b"p" * 4000)
    count = 20_000  # 80 MB, far more than the sockets hold
    client.socket.setblocking(False)
    sent, unsent, progress_s = 0, b"", time.monotonic()
    while sent < count and time.monotonic() - progress_s < 1:
        unsent = unsent or get(PAIR[sent % 2], str(sent), padding).replace(b"models/007", b"models/plain")
        try:
            unsent = unsent[client.socket.send(unsent) :]
            sent, progress_s = sent + (not unsent), time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
    assert sent < count, "the server took in everything of a client that reads nothing"
    client.socket.settimeout(10)
    for place in range(sent):
        document = client.document()
        assert (document["request_id"], document["entity"]) == (str(place), PAIR[place % 2])
    client.send(unsent)
    assert client.document()["request_id"] == str(sent)


def test_a_request_may_come_byte_by_byte(client: Client) -> None:
    whole = post()
    client.send(*(whole[place : place + 7] for place in range(0, len(whole), 7)))
    assert client.document()["entity"] == "hot1"


def test_a_chunked_body(client: Client) -> None:
    head = POST + b"transfer-encoding: chunked\r\n\r\n"
    client.send(head, b"5\r\n" + BODY[:5] + b"\r\n", b"%x\r\n%b\r\n" % (len(BODY) - 5, BODY[5:]), b"0\r\n\r\n")
    assert client.document()["entity"] == "hot1"


def test_a_body_is_asked_for_where_the_client_waits_for_that(client: Client) -> None:
    head, body = post(more=b"expect: 100-continue\r\n")[: -len(BODY)], BODY
    client.send(head)
    status, _, _ = client.answer()
    assert status == 100
    client.send(body)
    assert client.document()["entity"] == "hot1"


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_body_that_is_too_large_is_refused_before_it_is_whole(client: Client, is_announced: bool) -> None:
    if is_announced:
        client.send(POST + b"content-length: 99999999\r\nexpect: 100-continue\r\n\r\n")
    else:
        client.send(POST + b"transfer-encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        for _ in range(65):
            client.send(chunk)
    status, _, body = client.answer()
    assert (status, json.loads(body)["code"]) == (413, "body_too_large")


def test_a_connection_ends_after_its_answer_where_that_is_asked_for(world: World) -> None:
    for request in (get("hot1", more=b"connection: close\r\n"), get("hot1").replace(b"HTTP/1.1", b"HTTP/1.0")):
        with Client(world) as client:
            client.send(request)
            status, headers, _ = client.answer()
            assert (status, headers["connection"]) == (200, "close")
            assert client.is_ended()


def test_an_upgrade_is_not_taken_up(client: Client) -> None:
    client.send(get("hot1", more=b"connection: upgrade\r\nupgrade: h2c\r\n"))
    assert client.document()["entity"] == "hot1"


def test_other_methods_are_told_which_to_use(client: Client) -> None:
    client.send(get("hot1").replace(b"GET", b"DELETE"))
    status, headers, body = client.answer()
    assert (status, headers["allow"], json.loads(body)["code"]) == (405, "GET", "method_not_allowed")
    client.send(get("hot1").replace(b"GET", b"HEAD"))
    head, client.unread = client._until(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 405")
    client.send(get("hot2"))  # a HEAD has no body, so this is the next answer
    assert client.document()["entity"] == "hot2"


def test_an_absolute_target_and_a_query_are_read(client: Client) -> None:
    client.send(get("hot1?x=1").replace(b"/v1", b"http://h/v1"))
    assert client.document()["entity"] == "hot1"
    client.send(get("hot2?x=1"))
    assert client.document()["entity"] == "hot2"


def test_what_is_no_http_is_refused_and_the_worker_goes_on(world: World, client: Client) -> None:
    client.send(b"\x16\x03\x01 hello\r\n\r\n")
    assert client.answer()[0] == 400
    assert client.is_ended()
    with Client(world) as other:
        other.send(get("hot1"))
        status, headers, _ = other.answer()
    assert status == 200
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT", headers["date"])
