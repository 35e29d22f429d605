"""Manifests of routed bundles, by digest: in memory, then in the state folder, then where the bundle lies."""

from pathlib import Path

from pydantic import ValidationError

from online.api.files import read_or_none, write_whole
from schemas.bundle import fetch_manifest
from schemas.manifest import Manifest, bundle_digest


class ManifestStore:
    """The copy in the state folder lets a worker start without the bundle's store. Called in a thread."""

    def __init__(self, folder: Path, allowed: tuple[str, ...]) -> None:
        self._folder, self._allowed = folder, allowed
        self._known: dict[str, Manifest] = {}

    def get(self, url: str, digest: str) -> Manifest:
        """Raises BundleError."""
        if (known := self._known.get(digest)) is not None:
            return known
        path = self._folder / f"{digest}.json"
        manifest = _from_disk(path, digest)
        if manifest is None:
            manifest, raw = fetch_manifest(url, digest, self._allowed)
            write_whole(path, raw)
        self._known[digest] = manifest
        return manifest


def _from_disk(path: Path, digest: str) -> Manifest | None:
    raw = read_or_none(path)
    if raw is None or bundle_digest(raw) != digest:
        return None
    try:
        return Manifest.model_validate_json(raw)
    except ValidationError:  # of a format this program does not know: the bundle's own place says so in words
        return None
