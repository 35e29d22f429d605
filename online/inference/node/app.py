"""The node process: wires versions, directory, public protocol and registry together, and drains on SIGTERM."""

import asyncio
import logging
import signal
import socket
from collections.abc import Coroutine, Iterator
from typing import Any

from online.inference.node import view
from online.inference.node.directory import Directory, DirectoryClient
from online.inference.node.http import build_app, http_server
from online.inference.node.oip.grpc_server import GrpcServer
from online.inference.node.registry import Registry
from online.inference.node.repository import Repository
from online.inference.node.settings import InferenceSettings

log = logging.getLogger(__name__)

_STATUS_S = 1.0


class Node:
    """`run` returns when it has drained."""

    def __init__(self, settings: InferenceSettings) -> None:
        self._settings = settings
        self._is_draining = False
        self._stopping = asyncio.Event()
        self._repository = Repository(settings, self._on_change)
        self._wire_socket = socket.create_server((settings.host, settings.wire_port), backlog=1024)
        self._http_socket = socket.create_server((settings.http_host, settings.http_port), backlog=1024)
        port = self._wire_socket.getsockname()[1]
        self._name = settings.replica_name(port)
        self._wire_address = f"{settings.advertised_host}:{port}"
        self._http_address = f"{settings.advertised_http_host}:{self._http_socket.getsockname()[1]}"
        self._directory = Directory(self._name, self._document)
        url = settings.redis_url
        self._registry = Registry(url.get_secret_value(), self._name, self._announcement) if url else None

    async def run(self) -> None:
        """Raises what a part of the node died of, its workers end with it; OSError where it cannot listen."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        if self._settings.unix_sockets is not None:
            self._settings.unix_sockets.mkdir(parents=True, exist_ok=True)
        listener = await loop.create_server(lambda: DirectoryClient(self._directory), sock=self._wire_socket)
        http = http_server(build_app(self._repository, self._settings, lambda: self._is_draining))
        try:
            async with GrpcServer(self._repository, self._settings, lambda: self._is_draining) as grpc:
                self._log_where(grpc.port)
                async with asyncio.TaskGroup() as group:
                    versions = group.create_task(self._repository.run())
                    others = [group.create_task(work) for work in self._others()]
                    serving = group.create_task(http.serve([self._http_socket]))
                    await self._stopping.wait()
                    await self._drain(versions)
                    for task in others:
                        task.cancel()
                    http.should_exit = True
                    await serving
        finally:
            listener.close()
            self._directory.close()
        log.info("drained")

    def _log_where(self, grpc_port: int) -> None:
        http_port = self._http_socket.getsockname()[1]
        ports = {"wire": self._wire_address, "http_port": http_port, "grpc_port": grpc_port}
        log.info("listening", extra={"node": self._name, **ports})

    def _others(self) -> Iterator[Coroutine[Any, Any, None]]:
        yield self._tick()
        if self._registry is not None:
            yield self._registry.run()

    async def _drain(self, versions: asyncio.Task[None]) -> None:
        """Unready first; then each worker answers what it holds; what is left when the time is up is killed."""
        log.info("draining", extra={"within_s": self._settings.drain_s})
        self._is_draining = True
        self._on_change()
        self._repository.drain()
        _, late = await asyncio.wait([versions], timeout=self._settings.drain_s)
        if late:
            log.warning("the time to drain is up, workers are killed")
            self._repository.kill()
            await asyncio.wait(late)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_STATUS_S)
            self._directory.push()

    def _on_change(self) -> None:
        self._directory.push()
        if self._registry is not None:
            self._registry.hurry()

    def _document(self) -> dict[str, object]:
        return view.directory(self._name, self._is_draining, self._repository.versions, self._settings.device)

    def _announcement(self) -> dict[str, object]:
        profile = view.profile(self._repository.versions, self._settings.device)
        addresses = {"address": self._wire_address, "http": self._http_address}
        return {**addresses, **self._document(), "profile": profile}
