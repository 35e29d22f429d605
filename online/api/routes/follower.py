"""Follows the routes documents: from the state folder at the start, then on each message and each second.

A document is taken when it is newer by (epoch, revision) and everything it names could be read; until then, and
where it cannot be, the old one stays and the reason is told. The last one taken lies in the state folder.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Self

from online.api.lookup.connection import RedisDown, RedisSlow
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import get
from online.api.routes.loading import RefusedDocument, load_view, parse_document
from online.api.routes.manifests import ManifestStore
from online.api.routes.view import ModelView
from schemas.keys import routes_key
from schemas.routes import RoutesDocument
from schemas.whole_files import read_or_none, write_whole

log = logging.getLogger(__name__)

_POLL_S = 1.0
_RETRY_REFUSED_S = 5.0


class RoutesFollower:
    """Use as `async with`.

    Attributes:
        views: what is live, by model; read by requests, replaced whole.
        refusals: why a model's newest document is not taken, by model.
    """

    def __init__(
        self,
        models: tuple[str, ...],
        link: RedisLink,
        state_dir: Path,
        manifests: ManifestStore,
        on_view: Callable[[ModelView], None],
    ) -> None:
        self._models, self._link, self._manifests = models, link, manifests
        self._folder = state_dir / "routes"
        self._on_view = on_view
        self._seen: dict[str, bytes] = {}
        self._retry_at_s: dict[str, float] = {}
        self._wake = asyncio.Event()
        self.polled = asyncio.Event()
        self.views: dict[str, ModelView] = {}
        self.refusals: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        for model in self._models:
            raw = await asyncio.to_thread(read_or_none, self._path(model))
            if raw is not None:
                await self._take(model, raw, is_from_disk=True)
        self._task = asyncio.create_task(self._follow(), name="routes")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    def wake(self) -> None:
        """Somebody says that a document has changed."""
        self._wake.set()

    async def _follow(self) -> None:
        while True:
            self._wake.clear()
            try:
                keys = [routes_key(model).encode() for model in self._models]
                replies = await self._link.ask([get(key) for key in keys])
            except (RedisDown, RedisSlow):
                replies = []
            for model, reply in zip(self._models, replies, strict=False):
                if isinstance(reply, bytes):
                    await self._take(model, reply)
            if replies:
                self.polled.set()
            try:
                async with asyncio.timeout(_POLL_S):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _take(self, model: str, raw: bytes, is_from_disk: bool = False) -> None:
        now_s = asyncio.get_running_loop().time()
        if raw == self._seen.get(model) and now_s < self._retry_at_s.get(model, float("inf")):
            return
        self._seen[model] = raw
        try:
            document = parse_document(raw, model)
            held = self.views.get(model)
            if held is None or _replaces(document, held.document):
                self._switch(await asyncio.to_thread(load_view, document, self._manifests))
                if not is_from_disk:
                    await self._keep(model, raw)
        except RefusedDocument as error:
            if self.refusals.get(model) != str(error):
                log.error("a routes document is refused", extra={"model": model, "reason": str(error)})
            self.refusals[model] = str(error)
            self._retry_at_s[model] = now_s + _RETRY_REFUSED_S
            return
        self.refusals.pop(model, None)
        self._retry_at_s.pop(model, None)

    def _switch(self, view: ModelView) -> None:
        document = view.document
        self.views[document.model] = view
        generation = view.stable.generation
        log.info(
            "routes taken",
            extra={
                "model": document.model,
                "epoch": document.epoch,
                "revision": document.revision,
                "stable": document.stable,
                "generation": generation.id if generation else None,
            },
        )
        self._on_view(view)

    async def _keep(self, model: str, raw: bytes) -> None:
        try:
            await asyncio.to_thread(write_whole, self._path(model), raw)
        except OSError as error:
            log.warning("the routes document cannot be kept on disk", extra={"error": str(error)})

    def _path(self, model: str) -> Path:
        return self._folder / f"{model}.json"


def _replaces(document: RoutesDocument, held: RoutesDocument) -> bool:
    """Also of the same order, if another: it was made after Redis had lost the held one with its last second."""
    return document.order > held.order or (document.order == held.order and document != held)
