"""What pages read from: the kept log of each model, and Redis. Opened once, closed at the end."""

from contextlib import ExitStack
from typing import Self

from online.monitor.quality.parity_log import ParityLog
from online.monitor.requestlog.files import LogFolder
from online.monitor.requestlog.keeper import Log
from online.monitor.requestlog.kept import KeptLog
from online.monitor.requestlog.stored import StoredDays
from online.monitor.requestlog.streams import StreamFolder
from online.monitor.settings import MonitorSettings
from online.monitor.state import LiveStateReader
from schemas.kept_files import KeptFiles
from schemas.names import PARITY


class Sources:
    """Use as `with`. `logs` by model; `settings` hold the prices and targets that estimates need.

    `files`: reports of nights and of drift, of which each is parsed once.
    """

    def __init__(self, settings: MonitorSettings) -> None:
        self.settings = settings
        self.folders = {model: LogFolder(settings.data_url, model) for model in settings.models}
        self.state = LiveStateReader(settings.redis_url.get_secret_value(), settings.redis_timeout_s)
        self.logs = {model: self._kept(folder, model) for model, folder in self.folders.items()}
        self.files = KeptFiles()
        # The API keeps the streams of both logs beside each other.
        streams = settings.streams_dir.with_name(PARITY) if settings.streams_dir is not None else None
        self.parity = {model: ParityLog(settings.data_url, model, streams) for model in settings.models}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        with ExitStack() as stack:
            stack.enter_context(self.state)
            for log in self.logs.values():
                stack.callback(log.close)

    @property
    def read_ahead(self) -> list[Log]:
        """What is kept up to date between pages."""
        return [*self.logs.values(), *self.parity.values()]

    def _kept(self, folder: LogFolder, model: str) -> KeptLog:
        directory = self.settings.streams_dir
        streams = StreamFolder(directory, model) if directory is not None else None
        kept_in, stored = self.settings.state_dir, None
        if kept_in is not None:
            stored = StoredDays(kept_in / f"model={model}", f"{self.settings.data_url} {model}")
        return KeptLog(folder, streams, self.settings.query_threads, self.settings.query_memory_mb, stored)
