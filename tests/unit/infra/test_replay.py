"""The replay's client against a real server over real sockets: it retries as told, and never mixes answers up."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import unquote

import orjson

from infra.demo.replay import Lookup, Replay

Respond = Callable[[str, int], bytes | None]


def response(status: int, document: dict[str, object], headers: str = "") -> bytes:
    body = orjson.dumps(document)
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


@asynccontextmanager
async def server(respond: Respond) -> AsyncIterator[int]:
    """Answers each request by `respond(entity, how often it was asked for)`; None closes the connection."""
    asked: dict[str, int] = {}
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        serving.add(task)
        while line := await reader.readline():
            await reader.readuntil(b"\r\n\r\n")
            entity = unquote(line.split()[1].decode().rpartition("/")[2])
            asked[entity] = asked.get(entity, 0) + 1
            answer = respond(entity, asked[entity])
            if answer is None:
                break
            writer.write(answer)
        writer.close()
        await writer.wait_closed()

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with running:
        yield running.sockets[0].getsockname()[1]
        await asyncio.gather(*serving)


async def test_every_lookup_gets_its_own_answer_at_last() -> None:
    def respond(entity: str, times: int) -> bytes | None:
        if entity.endswith("busy") and times < 3:
            return response(503, {"code": "overloaded"}, "Retry-After: 0\r\n")
        if entity.endswith("cut") and times < 2:
            return None
        return response(200, {"entity": entity, "source": "live"})

    kinds = ("plain", "busy", "cut", "a/b é", "%2F")
    lookups = [Lookup(i * 0.002, f"{i}{kinds[i % len(kinds)]}") for i in range(100)]
    seen: list[int] = []
    async with server(respond) as port:
        result = await Replay("127.0.0.1", port, "delay").run(lookups, seen.append)
    assert result.errors == 0
    assert len(result.answered) == 100
    assert seen[-1] == 100
    for one in result.answered:
        assert one.answer["entity"] == lookups[one.index].entity
        assert one.attempts == {"busy": 3, "cut": 2}.get(lookups[one.index].entity.lstrip("0123456789"), 1)
    assert result.retries["503"] == 40


async def test_an_answer_that_is_final_is_not_asked_for_again() -> None:
    async with server(lambda entity, times: response(404, {"code": "unknown_entity"})) as port:
        result = await Replay("127.0.0.1", port, "delay").run([Lookup(0, "x")])
    assert [(one.status, one.attempts) for one in result.answered] == [(404, 1)]
    assert result.errors == 1


async def test_patience_ends() -> None:
    async with server(lambda entity, times: response(503, {}, "Retry-After: 1\r\n")) as port:
        result = await Replay("127.0.0.1", port, "delay", patience_s=0.5).run([Lookup(0, "x")])
    assert [(one.status, one.attempts) for one in result.answered] == [(503, 1)]
