"""Loading and unloading by the repository's calls: who may, what is asked for, and what went wrong."""

import hmac
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from online.inference.node.oip.errors import Invalid, NotFound, SwitchedOff, Unauthenticated
from online.inference.node.oip.tensors import shown
from online.inference.node.repository import LoadFailed, Repository, UnknownModel, UnknownVersion
from online.inference.node.settings import BundleAddress

log = logging.getLogger(__name__)

_DIGEST_LETTERS = frozenset("0123456789abcdef")
_DIGEST_LENGTH = 64


def check_token(token_file: Path | None, authorization: str | None) -> None:
    """`authorization`: as the header has it. The file is read each time, so that a token can be replaced.

    Raises:
        SwitchedOff: no file is set, or it holds no token.
        Unauthenticated: another token, or none.
    """
    if token_file is None:
        raise SwitchedOff("loading and unloading is switched off: INFERENCE_ADMIN_TOKEN names no file")
    try:
        token = token_file.read_bytes().strip()
    except OSError as error:
        log.error("the file of INFERENCE_ADMIN_TOKEN cannot be read: %s", error)
        token = b""
    if not token:
        raise SwitchedOff(
            "loading and unloading is switched off: the file of INFERENCE_ADMIN_TOKEN holds no token"
        )
    scheme, _, given = (authorization or "").partition(" ")
    # In a time that does not tell where they differ.
    is_same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token)
    if scheme.lower() != "bearer" or not is_same:
        raise Unauthenticated("send the token as `authorization: Bearer TOKEN`")


async def load(repository: Repository, model: str, parameters: Mapping[str, Any]) -> None:
    """Returns when the version serves.

    Raises:
        Invalid: the bundle is not named, does not load, or is of another model.
        NotFound: nothing of the model is known, and no bundle is named.
    """
    if any(name.startswith("file:") for name in parameters):
        raise Invalid("model files are not taken in a request: name the bundle as parameter bundle, URL@DIGEST")
    address = _address(parameters)
    try:
        if address is None:
            await repository.reload(model)
        else:
            await _load(repository, model, address)
    except UnknownModel as error:
        raise NotFound(str(error)) from None
    except LoadFailed as error:
        raise Invalid(f"failed to load {shown(model)}: {error}") from None


async def unload(repository: Repository, model: str, parameters: Mapping[str, Any]) -> None:
    """Returns when what the versions held was answered. Raises NotFound, Invalid."""
    version = parameters.get("version")
    if version is not None and not isinstance(version, str):
        raise Invalid(f"parameter version must be text, not {shown(version)}")
    try:
        await repository.unload(model, version or None)
    except (UnknownModel, UnknownVersion) as error:
        raise NotFound(str(error)) from None


async def _load(repository: Repository, model: str, address: BundleAddress) -> None:
    was_there = any(version.bundle.digest == address.digest for version in repository.versions)
    version = await repository.load(address)
    if version.model != model:
        if not was_there and version.model is not None:
            await repository.unload(version.model, version.name)
        raise Invalid(f"the bundle is of model {version.model}, not {shown(model)}")


def _address(parameters: Mapping[str, Any]) -> BundleAddress | None:
    """From the parameter `bundle`, or from the one of that name in Triton's `config`. Raises Invalid."""
    given = parameters.get("bundle")
    if given is None and "config" in parameters:
        given = _from_config(parameters["config"])
    if given is None:
        return None
    url, at, digest = given.rpartition("@") if isinstance(given, str) else ("", "", "")
    if not (at and url and len(digest) == _DIGEST_LENGTH and set(digest) <= _DIGEST_LETTERS):
        raise Invalid(f"parameter bundle must be URL@DIGEST, the digest 64 hexadecimal digits, not {shown(given)}")
    return BundleAddress(url, digest)


def _from_config(config: object) -> object:
    try:
        document = orjson.loads(config) if isinstance(config, (str, bytes)) else config
        return document["parameters"]["bundle"]["string_value"]  # type: ignore[index]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise Invalid(
            'parameter config must be JSON with {"parameters": {"bundle": {"string_value": "URL@DIGEST"}}}'
        ) from None
