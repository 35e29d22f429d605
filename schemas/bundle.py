"""Reading a model bundle: by URL, only from allowed places, checked against a digest that came from elsewhere.

A bundle is copied into a local cache folder named by its digest, each file checked against the manifest while it
is copied, and appears there whole or not at all. Loading the program itself is `runtime`'s; no torch here.
"""

import hashlib
import io
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import fsspec
from pydantic import ValidationError

from schemas.features import FeatureTransform
from schemas.manifest import MANIFEST_FILE, TOKENIZER_FILE, Manifest, bundle_digest
from schemas.text import MAX_TOKENIZER_BYTES, TokenizerError

_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://")
_MAX_MANIFEST_BYTES = 64 << 20
_CHUNK = 1 << 20
_MAX_SHOWN_ERRORS = 5


class BundleError(Exception):
    """A bundle that may not be used; the message says which file, and why, in words."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle whose files are local and were checked."""

    folder: Path
    manifest: Manifest
    digest: str


def fetch_bundle(url: str, digest: str, cache: Path, allowed: Sequence[str]) -> Bundle:
    """Brings the bundle at `url` into `cache` and checks it; one that is there already is only checked.

    Args:
        url: a folder or any fsspec URL.
        digest: sha256 of the manifest, from the routes document or settings.
        cache: local folder; each bundle lies in a folder of it named by its digest.
        allowed: prefixes, of which `url` must be or lie under one.

    Raises:
        BundleError: the address is not allowed, or a file is missing, unreadable or not what it should be.
    """
    _check_allowed(url, allowed)
    kept = cache / digest
    if re.fullmatch(r"[0-9a-f]{64}", digest) is None:
        raise BundleError(f"{digest[:80]!r} is no sha256 digest")
    if kept.is_dir():
        try:
            return read_folder(kept, digest)
        except BundleError:
            shutil.rmtree(kept, ignore_errors=True)  # damaged on disk: fetched anew
    return _fetch(url.rstrip("/"), digest, kept)


def read_folder(folder: Path, digest: str | None = None) -> Bundle:
    """Checks a local bundle in place; without `digest`, only that its files agree with its manifest.

    Raises:
        BundleError: as `fetch_bundle`.
    """
    manifest, raw = _read_manifest(str(folder), digest)
    for name, expected in manifest.files.items():
        _check(name, _copy(f"{folder}/{name}", None), expected)
    return Bundle(folder, manifest, bundle_digest(raw))


def fetch_manifest(url: str, digest: str, allowed: Sequence[str]) -> tuple[Manifest, bytes]:
    """The manifest of the bundle at `url` and its bytes, for those who need no other file of it.

    Raises:
        BundleError: as `fetch_bundle`.
    """
    _check_allowed(url, allowed)
    return _read_manifest(url.rstrip("/"), digest)


def fetch_tokenizer(url: str, manifest: Manifest, allowed: Sequence[str]) -> bytes | None:
    """`tokenizer.json` of the bundle at `url`, or None where no feature is text.

    Raises:
        BundleError: as `fetch_bundle`.
    """
    if not manifest.text_features:
        return None
    _check_allowed(url, allowed)
    return _read_tokenizer(url.rstrip("/"), manifest)


def load_transform(folder: Path, manifest: Manifest) -> FeatureTransform:
    """The transform of a local bundle. Raises BundleError, as `make_transform` too."""
    raw = _read_tokenizer(str(folder), manifest) if manifest.text_features else None
    return make_transform(manifest, raw)


def make_transform(manifest: Manifest, tokenizer: bytes | None) -> FeatureTransform:
    """Raises BundleError where the tokenizer may not be used."""
    try:
        return FeatureTransform(manifest, tokenizer)
    except TokenizerError as error:
        raise BundleError(f"{TOKENIZER_FILE} is refused: {error}") from None


def is_allowed(url: str, allowed: Sequence[str]) -> bool:
    """Whether `url` is, or lies under, one of the prefixes; local paths are compared with links resolved."""
    # `::` chains file systems, and `..` climbs out of a prefix: no bundle address needs either.
    if "::" in url or ".." in url.split("/"):
        return False
    place = _canonical(url)
    return any(place == root or place.startswith(f"{root}/") for root in map(_canonical, allowed))


def _check_allowed(url: str, allowed: Sequence[str]) -> None:
    if not is_allowed(url, allowed):
        raise BundleError(f"{url} is under none of the allowed bundle addresses: {', '.join(allowed) or 'none'}")


def _canonical(url: str) -> str:
    if url.startswith("file://"):
        url = url.removeprefix("file://")
    return url.rstrip("/") if _SCHEME.match(url) else str(Path(url).resolve())


def _fetch(url: str, digest: str, kept: Path) -> Bundle:
    manifest, raw = _read_manifest(url, digest)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=kept.parent) as scratch:
        folder = Path(scratch) / "bundle"
        folder.mkdir()
        (folder / MANIFEST_FILE).write_bytes(raw)
        for name, expected in manifest.files.items():
            with (folder / name).open("wb") as target:
                _check(name, _copy(f"{url}/{name}", target), expected)
        try:
            folder.rename(kept)
        except OSError:
            # Another process was first; its copy is checked like any other.
            if not kept.is_dir():
                raise
    return read_folder(kept, digest)


def _read_manifest(url: str, digest: str | None) -> tuple[Manifest, bytes]:
    try:
        with fsspec.open(f"{url}/{MANIFEST_FILE}", "rb") as file:
            raw: bytes = file.read(_MAX_MANIFEST_BYTES + 1)
    except FileNotFoundError:
        raise BundleError(f"{url} has no {MANIFEST_FILE}") from None
    except (OSError, ValueError, ImportError) as error:  # ImportError: a scheme whose client is not installed
        raise BundleError(f"{MANIFEST_FILE} of {url} cannot be read: {error}") from None
    if len(raw) > _MAX_MANIFEST_BYTES:
        raise BundleError(f"{MANIFEST_FILE} of {url} is over {_MAX_MANIFEST_BYTES >> 20} MiB")
    if digest is not None and (found := bundle_digest(raw)) != digest:
        raise BundleError(f"{MANIFEST_FILE} of {url} has digest {found}, not the expected {digest}")
    try:
        manifest = Manifest.model_validate_json(raw)
    except ValidationError as error:
        raise BundleError(f"{MANIFEST_FILE}: {_in_words(error)}") from None
    for name in manifest.files:
        if _FILE.match(name) is None or name == MANIFEST_FILE:
            raise BundleError(f"{MANIFEST_FILE} lists the file {name!r}, which is no plain file name")
    return manifest, raw


def _read_tokenizer(url: str, manifest: Manifest) -> bytes:
    target = io.BytesIO()
    _check(TOKENIZER_FILE, _copy(f"{url}/{TOKENIZER_FILE}", target), manifest.files[TOKENIZER_FILE])
    return target.getvalue()


def _copy(source: str, target: BinaryIO | None) -> str:
    """Reads `source` once, into `target` where one is given; returns its sha256."""
    name = source.rpartition("/")[2]
    # A tokenizer is read into memory whole by everyone; models are as large as they are.
    left = MAX_TOKENIZER_BYTES if name == TOKENIZER_FILE else None
    found = hashlib.sha256()
    try:
        with fsspec.open(source, "rb") as file:
            while chunk := file.read(_CHUNK):
                if left is not None and (left := left - len(chunk)) < 0:
                    raise BundleError(f"{name} is over {MAX_TOKENIZER_BYTES >> 20} MiB")
                found.update(chunk)
                if target is not None:
                    target.write(chunk)
    except FileNotFoundError:
        raise BundleError(f"{name} is missing: the manifest lists it, the bundle does not have it") from None
    except OSError as error:
        raise BundleError(f"{name} cannot be read: {error}") from None
    return found.hexdigest()


def _check(name: str, found: str, expected: str) -> None:
    if found != expected:
        raise BundleError(f"{name} has sha256 {found}, the manifest says {expected}: changed, or cut short")


def _in_words(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)
    lines = [
        f"{'.'.join(map(str, item['loc']))}: {item['msg']}" if item["loc"] else item["msg"]
        for item in found[:_MAX_SHOWN_ERRORS]
    ]
    more = len(found) - len(lines)
    return "; ".join(lines) + (f"; and {more} more" if more > 0 else "")
