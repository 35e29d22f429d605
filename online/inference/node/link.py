"""The node's own connection to a worker, for those who call the node by its public protocol."""

import asyncio

from online.wire_client.asking import ReplicaGone, Rows
from online.wire_client.dialling import dial
from online.wire_client.replica import Replica
from schemas import wire

_GREET_S = 2.0


class WorkerLink:
    """Connects when it is first needed, and again after the worker was replaced. One a version."""

    def __init__(self, digest: str) -> None:
        self._digest = digest
        self._hello = wire.hello({"role": "node"})
        self._changed = asyncio.Event()
        self._dialling = asyncio.Lock()
        self._replica: Replica | None = None

    async def run(self, address: str | None, rows: Rows) -> wire.Result:
        """Runs rows on the worker that listens at `address`; None: there is none at the moment.

        Raises:
            ReplicaGone, ReplicaRefused, TimeoutError: as `Replica.run`.
        """
        if (replica := self._replica) is None or not replica.is_usable:
            async with asyncio.timeout_at(rows.deadline_s):
                replica = await self._connected(address)
        return await replica.run(rows)

    def close(self) -> None:
        if self._replica is not None:
            self._replica.abort()

    async def _connected(self, address: str | None) -> Replica:
        async with self._dialling:
            if self._replica is not None and self._replica.is_usable:
                return self._replica
            if address is None:
                raise ReplicaGone("the version has no worker at the moment")
            try:
                replica = await dial(address, lambda: Replica(self._digest, self._hello, self._changed.set))
                async with asyncio.timeout(_GREET_S):
                    while not replica.is_usable and not replica.lost.is_set():
                        self._changed.clear()
                        await self._changed.wait()
            except OSError as error:
                raise ReplicaGone(f"the worker cannot be reached: {error}") from None
            if replica.lost.is_set():
                raise ReplicaGone("the worker ended the connection")
            self._replica = replica
            return replica
