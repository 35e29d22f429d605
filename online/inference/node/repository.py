"""The versions a node serves: those of its settings, and those that an administrator loads and unloads.

Each runs apart from the others: one that fails, or is slow to load, never holds up another.
"""

import asyncio
import logging
from collections.abc import Callable

from online.inference.cpus import available_cpus
from online.inference.node.settings import BundleAddress, InferenceSettings
from online.inference.node.version import Version
from online.inference.report import State

log = logging.getLogger(__name__)


class UnknownModel(LookupError):
    """No version of a model of that name was ever loaded here; the message says which are known."""


class UnknownVersion(LookupError):
    """The model is known, that version of it is not."""


class LoadFailed(Exception):
    """A version that did not become ready; the message is the worker's reason."""


class Repository:
    """`run` is the life of all versions, a task of the node's. The rest is for its event loop.

    Args:
        on_change: called after each change of any version's state.
    """

    def __init__(self, settings: InferenceSettings, on_change: Callable[[], None]) -> None:
        self._settings, self._on_change = settings, on_change
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[Version, asyncio.Task[None]] = {}
        self._draining = asyncio.Event()
        self.versions = [Version(settings, address, on_change) for address in settings.addresses]

    async def run(self) -> None:
        """Until drained. Raises what a version's supervision died of."""
        async with asyncio.TaskGroup() as self._group:
            for version in self.versions:
                self._start(version)
            await self._draining.wait()

    def drain(self) -> None:
        """Each worker answers what it holds; then `run` ends."""
        self._draining.set()
        for version in self.versions:
            version.drain()

    def kill(self) -> None:
        for version in self.versions:
            version.kill()

    def find(self, model: str, name: str | None = None) -> Version:
        """The version `name` of `model`; without a name the one loaded last, of those that are ready if any is.

        Raises:
            UnknownModel, UnknownVersion.
        """
        of_model = [version for version in self.versions if version.model == model]
        if not of_model:
            known = sorted({version.model for version in self.versions if version.model is not None})
            raise UnknownModel(f"unknown model {model[:80]!r}; known are {', '.join(known) or 'none'}")
        found = [version for version in of_model if name in (None, version.name)]
        if not found:
            known = sorted({version.name for version in of_model if version.name is not None})
            raise UnknownVersion(f"model {model} has no version {str(name)[:80]!r}; known are {', '.join(known)}")
        return next((version for version in reversed(found) if version.is_ready), found[-1])

    async def load(self, address: BundleAddress) -> Version:
        """Serves one bundle more, and returns when it is warm; one that is served already is only waited for.

        Raises:
            LoadFailed: with the worker's reason; the version is then forgotten.
        """
        version = next((v for v in self.versions if v.bundle.digest == address.digest), None)
        if version is not None and version in self._tasks:
            await _settled(version)
            return version
        if version is not None:  # its address may have changed since
            self.versions.remove(version)
        version = Version(self._settings, address, self._on_change)
        self.versions.append(version)
        self._start(version)
        try:
            await _settled(version)
            self._refuse_a_second(version)
        except BaseException:
            await self._stop(version)
            if version in self.versions:
                self.versions.remove(version)
            raise
        return version

    async def reload(self, model: str) -> None:
        """Loads again what was unloaded of the model, and waits for what is loading.

        Raises:
            UnknownModel: nothing of it was ever loaded; its bundle has to be named.
            LoadFailed: of the first that does not become ready.
        """
        of_model = [version for version in self.versions if version.model == model]
        if not of_model:
            raise UnknownModel(f"nothing of model {model[:80]!r} is known: name its bundle")
        for version in of_model:
            if version not in self._tasks:
                self._start(version)
        for version in of_model:
            await _settled(version)

    async def unload(self, model: str, name: str | None = None) -> None:
        """Stops the version, or all of the model, once what it holds is answered. Raises as `find`."""
        first = self.find(model, name)
        same = [v for v in self.versions if v.model == model and name in (None, v.name)]
        await asyncio.gather(*(self._stop(version) for version in (same or [first])))

    def _start(self, version: Version) -> None:
        if self._group is None or self._draining.is_set():
            raise LoadFailed("the node is draining")
        version.prepare()
        self._tasks[version] = task = self._group.create_task(version.supervise())
        task.add_done_callback(lambda _: self._ended(version))
        self._share_threads([*self._tasks])

    def _ended(self, version: Version) -> None:
        self._tasks.pop(version, None)
        self._share_threads([*self._tasks])

    def _share_threads(self, versions: list[Version]) -> None:
        """Cores are shared equally, so that the threads of all workers together are no more than the cores."""
        share = max(1, available_cpus() // max(1, len(versions)))
        for version in versions:
            version.give_threads(self._settings.threads or share)

    async def _stop(self, version: Version) -> None:
        """Ends the version's worker, by force when its time to drain is up."""
        if (task := self._tasks.get(version)) is None:
            return
        version.drain()
        _, late = await asyncio.wait([task], timeout=self._settings.drain_s)
        if late:
            log.warning("the time to drain is up, the worker is killed", extra={"digest": version.bundle.digest})
            version.kill()
            await asyncio.wait([task])

    def _refuse_a_second(self, version: Version) -> None:
        for other in self.versions:
            if other is not version and (other.model, other.name) == (version.model, version.name):
                raise LoadFailed(
                    f"{version.model} {version.name} is served already, from bundle {other.bundle.digest[:12]}: "
                    "a version never changes, give the new bundle another"
                )


async def _settled(version: Version) -> None:
    """Returns when the version is ready. Raises LoadFailed as soon as it is not going to be."""
    while version.state is not State.READY:
        version.changed.clear()
        if version.state in (State.FAILED, State.STOPPED):
            raise LoadFailed(version.reason or "the version was unloaded")
        await version.changed.wait()
