"""Continuous parity of one worker, put together: the checks, their log and their counts."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Self

from online.api.answering.snapshot import SnapshotStore
from online.api.live.contract import Live
from online.api.lookup.clock import RedisClock
from online.api.lookup.link import RedisLink
from online.api.parity.checks import ParityChecks
from online.api.parity.metrics import ParityMetrics
from online.api.requestlog.buffer import LogBuffer
from online.api.requestlog.columns import Columns
from online.api.requestlog.writer import PARITY, LogWriter
from online.api.routes.view import ModelView
from online.api.settings import ApiSettings

# A few rows a second at most: files of an hour are few, and the site reads the stream meanwhile.
_MAX_ROWS = 10_000
_ROTATE_TIMES = 12


class Parity:
    """Use as `async with`; without a share it starts nothing, and takes no hit."""

    def __init__(
        self,
        settings: ApiSettings,
        link: RedisLink,
        snapshots: SnapshotStore,
        live: Live,
        views: Mapping[str, ModelView],
        clock: RedisClock,
    ) -> None:
        self._is_on = settings.parity_share > 0
        buffer = LogBuffer(settings.models, _MAX_ROWS)
        self.checks = ParityChecks(
            *(settings.parity_share, link, snapshots, live, views, clock, buffer),
            ParityMetrics(settings.models),
            settings.deadline_ms / 1000,
        )
        self._log = LogWriter(
            buffer,
            settings.parity_dir,
            settings.data_url,
            _ROTATE_TIMES * settings.log_rotate_s,
            settings.log_rotate_bytes,
            settings.log_max_bytes,
            _fold_nothing,
            PARITY,
        )
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self._is_on:
            self._stack.enter_context(self._log)
            await self._stack.enter_async_context(self.checks)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()


def _fold_nothing(taken: Sequence[tuple[str, Columns]], refused: Mapping[str, int]) -> None:
    """The checks count for themselves."""
