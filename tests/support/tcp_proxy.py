"""A TCP proxy in the test's own event loop, which does to connections what networks do."""

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Self


class TcpProxy:
    """Use as `async with`; forwards `port` to a server on the same machine until it is told otherwise.

    Attributes:
        is_mute: while set, what the server says is lost.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._clients: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_mute = False
        self.port = 0

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.refuse()
        self.reset()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def refuse(self) -> None:
        """New connections; those that stand go on."""
        self._server.close()

    def reset(self) -> None:
        """Ends every connection by RST, as a machine does that has forgotten it."""
        for writer in self._clients:
            found = writer.get_extra_info("socket")
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    def half_close(self, is_deaf: bool = False) -> None:
        """Says that nothing more will come, and goes on taking what the client writes, or not even that."""
        self.is_mute = True
        for writer in self._clients:
            if is_deaf:
                writer.transport.pause_reading()  # type: ignore[attr-defined]  # a transport of both ways
            writer.write_eof()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._clients.add(writer)
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
            back = asyncio.create_task(self._pump(server_reader, writer, is_answer=True))
            try:
                await self._pump(reader, server_writer)
            finally:
                back.cancel()
                server_writer.transport.abort()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._clients.discard(writer)
            self._tasks.discard(task)
            writer.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_answer: bool = False
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                if not (is_answer and self.is_mute):
                    writer.write(data)
