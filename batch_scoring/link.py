"""A connection to one node of Redis, by which commands go out packed by hand and replies may come back as bytes.

redis-py keeps connecting, TLS and users. Its own packing and parsing of every field costs several times what the
server needs for it.
"""

from types import TracebackType
from typing import Self

import hiredis
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from batch_scoring.store import node_of

ReplyError = hiredis.ReplyError
_RECEIVE_BYTES = 64 << 10
_MORE = object()


class Link:
    """Holds one connection of a node's pool until `close`. Replies come in the order of the commands."""

    def __init__(self, node: Redis) -> None:
        self.node = node
        self._pool = node.connection_pool
        self._connection = self._pool.get_connection()
        socket = self._connection._get_socket()
        assert socket is not None, "the pool gives connections that are open"
        self._socket = socket
        self._reader = hiredis.Reader(notEnoughData=_MORE)

    def send(self, packed: bytes) -> None:
        """Raises redis-py's ConnectionError or TimeoutError, as all that follows."""
        try:
            self._socket.sendall(packed)
        except TimeoutError:
            raise RedisTimeoutError("Redis took no more bytes in time") from None
        except OSError as error:
            raise RedisConnectionError(f"the connection to Redis was lost: {error}") from None

    def replies(self, count: int) -> list[object]:
        """The next `count` replies; one that is an error is a `ReplyError` among them."""
        found: list[object] = []
        gets = self._reader.gets
        buffer = bytearray(_RECEIVE_BYTES)
        while len(found) < count:
            reply = gets()
            if reply is _MORE:
                came = self._receive(memoryview(buffer))
                self._reader.feed(bytes(buffer[:came]))
            else:
                found.append(reply)
        return found

    def unless(self, expected: bytes, count: int) -> list[object] | None:
        """None where the next `count` replies are these very bytes, otherwise the replies.

        No sequence of replies begins with another of as many, so that reading as many bytes as are expected never
        waits for bytes that do not come: the first one that differs comes before.
        """
        if self._reader.has_data():
            return self.replies(count)
        buffer = bytearray(len(expected))
        view, have = memoryview(buffer), 0
        while have < len(expected):
            came = self._receive(view[have:])
            if buffer[have : have + came] != expected[have : have + came]:
                self._reader.feed(bytes(view[: have + came]))
                return self.replies(count)
            have += came
        return None

    def close(self) -> None:
        # Replies may be owed, which nobody else may get.
        self._connection.disconnect()  # type: ignore[no-untyped-call]  # redis-py has no types here
        self._pool.release(self._connection)

    def _receive(self, into: memoryview) -> int:
        try:
            came = int(self._socket.recv_into(into))
        except TimeoutError:
            raise RedisTimeoutError("Redis did not answer in time") from None
        except OSError as error:
            raise RedisConnectionError(f"the connection to Redis was lost: {error}") from None
        if came == 0:
            raise RedisConnectionError("Redis closed the connection")
        return came


class Links:
    """A link to each node that is asked for. Use as `with`."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._by_node: dict[Redis, Link] = {}

    def of(self, key: str) -> Link:
        """The link to the key's master."""
        node = node_of(self._redis, key)
        if node not in self._by_node:
            self._by_node[node] = Link(node)
        return self._by_node[node]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for link in self._by_node.values():
            link.close()
