"""Connecting by the addresses that settings and directories use: host:port, [v6]:port, or a path."""

import asyncio
import socket
from collections.abc import Callable
from typing import TypeVar

Protocol = TypeVar("Protocol", bound=asyncio.BaseProtocol)

CONNECT_TIMEOUT_S = 2.0


def split_address(address: str) -> tuple[str, int]:
    """Raises ValueError where `address` is not host:port."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise ValueError(f"{address!r} is not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


async def dial(address: str, make: Callable[[], Protocol]) -> Protocol:
    """Raises OSError (TimeoutError where it takes too long), ValueError on an address that is none."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        if "/" in address:
            _, protocol = await loop.create_unix_connection(make, address)
        else:
            host, port = split_address(address)
            _, protocol = await loop.create_connection(make, host, port)
    return protocol


async def addresses_of(name: str) -> frozenset[str]:
    """All addresses behind a configured name, so that one DNS name may stand for many nodes. Raises OSError."""
    if "/" in name:
        return frozenset({name})
    host, port = split_address(name)
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    hosts = {str(at[0]) for *_, at in found}
    return frozenset(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host in hosts)
