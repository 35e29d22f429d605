"""Manifests and transforms of routed bundles: in memory, then in the state folder, then where the bundle lies."""

import hashlib
from pathlib import Path

from pydantic import ValidationError

from schemas.bundle import fetch_manifest, fetch_tokenizer, make_transform
from schemas.features import FeatureTransform
from schemas.manifest import TOKENIZER_FILE, Manifest, bundle_digest
from schemas.whole_files import read_or_none, write_whole


class ManifestStore:
    """The copy in the state folder lets a worker start without the bundle's store. Called in a thread."""

    def __init__(self, folder: Path, allowed: tuple[str, ...]) -> None:
        self._folder, self._allowed = folder, allowed
        self._known: dict[str, Manifest] = {}
        self._transforms: dict[str, FeatureTransform] = {}

    def transform(self, url: str, digest: str) -> FeatureTransform:
        """Kept too: to parse a large tokenizer takes a second, which a new routes document need not cost again.

        Raises BundleError.
        """
        known = self._transforms.get(digest)
        if known is None:
            manifest = self.get(url, digest)
            known = make_transform(manifest, self._tokenizer(url, manifest))
            self._transforms[digest] = known
        return known

    def _tokenizer(self, url: str, manifest: Manifest) -> bytes | None:
        if not manifest.text_features:
            return None
        expected = manifest.files[TOKENIZER_FILE]
        path = self._folder / f"{expected}-{TOKENIZER_FILE}"
        raw = read_or_none(path)
        if raw is None or hashlib.sha256(raw).hexdigest() != expected:
            raw = fetch_tokenizer(url, manifest, self._allowed)
            if raw is not None:
                write_whole(path, raw)
        return raw

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
