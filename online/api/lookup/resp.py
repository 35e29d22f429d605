"""Redis commands as bytes, and addresses of Redis. Pure."""

import ssl
from dataclasses import dataclass, field, replace
from typing import Any

from redis.connection import SSLConnection, parse_url

# The key whose node is asked, or none, and the command in RESP, ready to be joined with others into one write.
Command = tuple[bytes, bytes]


def command(*words: bytes) -> bytes:
    """One command in RESP."""
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def hget(key: bytes, field_name: bytes) -> Command:
    """Without `command`'s loop: this is half of what a hit costs to ask for."""
    packed = b"*3\r\n$4\r\nHGET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(key), key, len(field_name), field_name)
    return key, packed


def get(key: bytes) -> Command:
    return key, b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(key), key)


def set_px(key: bytes, value: bytes, ttl_ms: int) -> Command:
    return key, command(b"SET", key, value, b"PX", b"%d" % ttl_ms)


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where a server is and how to greet it. `greeting` may hold a password, so it is never shown.

    Its last two commands are HELLO and PING.
    """

    host: str
    port: int
    path: str | None
    tls: ssl.SSLContext | None = field(repr=False)
    greeting: tuple[bytes, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """For the log."""
        return self.path or f"{self.host}:{self.port}"

    def of_node(self, host: str, port: int) -> "RedisAddress":
        """The same greeting and TLS for another server."""
        return replace(self, host=host, port=port, path=None)


def parse_address(url: str) -> RedisAddress:
    """Reads a `redis://`, `rediss://` or `unix://` URL with redis-py's own parser.

    Raises:
        ValueError: no such URL.
    """
    options: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call]  # redis-py has no types here
    greeting: list[bytes] = []
    if (password := options.get("password")) is not None:
        user = options.get("username")
        words = [str(user).encode()] if user else []
        greeting.append(command(b"AUTH", *words, str(password).encode()))
    if database := int(options.get("db", 0)):
        greeting.append(command(b"SELECT", b"%d" % database))
    greeting.append(command(b"HELLO", b"2"))  # is it a cluster? No ACL can refuse this one
    greeting.append(command(b"PING"))  # a server that is still loading, or wants a password, says so here
    is_tls = options.get("connection_class") is SSLConnection
    return RedisAddress(
        host=str(options.get("host", "localhost")),
        port=int(options.get("port", 6379)),
        path=str(options["path"]) if "path" in options else None,
        tls=_context(options) if is_tls else None,
        greeting=tuple(greeting),
    )


def tells_cluster(hello: object) -> bool:
    """Whether a reply to HELLO, names and values in turn, is that of a node of a cluster."""
    if not isinstance(hello, list):
        return False
    return (b"mode", b"cluster") in zip(hello[::2], hello[1::2], strict=False)


def _context(options: dict[str, object]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=_text(options.get("ssl_ca_certs")))
    if (certificate := _text(options.get("ssl_certfile"))) is not None:
        context.load_cert_chain(certificate, _text(options.get("ssl_keyfile")))
    if str(options.get("ssl_check_hostname", "true")).lower() in ("false", "0", "no"):
        context.check_hostname = False
    if options.get("ssl_cert_reqs") == "none":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _text(value: object) -> str | None:
    return None if value is None else str(value)
