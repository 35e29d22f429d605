"""Which versions a night scores, and why: told by the routes document, or by what is asked for."""

from dataclasses import dataclass
from typing import NamedTuple

from batch_scoring.publishing.last_live import last_live
from batch_scoring.runs import LOG, Refused, Role
from batch_scoring.settings import BatchSettings
from schemas.bundle import Bundle
from schemas.routes import RoutesDocument

_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Asked:
    """What a night is asked for.

    Attributes:
        bundle, digest: of the version that this run is for; None: of the version in service.
        version: what that bundle must be of, where it is named.
        first_bundle, first_digest: what is taken where nothing is in service yet.
        is_delta: only what has changed since the generation that is live.
    """

    model: str
    as_of: str
    run_key: str
    bundle: str | None = None
    digest: str | None = None
    first_bundle: str | None = None
    first_digest: str | None = None
    is_delta: bool = False
    version: str | None = None


class Target(NamedTuple):
    """A version that is scored, and why."""

    role: Role
    bundle: str
    digest: str | None
    base: str | None = None


def targets_of(settings: BatchSettings, asked: Asked, document: RoutesDocument | None, at_ms: int) -> list[Target]:
    """What to score: the version named; else that in service, and for some nights the one before it."""
    if asked.bundle is not None:
        if asked.is_delta:
            raise Refused("a delta patches the version in service: it takes no bundle")
        return [Target(Role.NEW, asked.bundle, asked.digest)]
    if document is None:
        if asked.is_delta:
            raise Refused(f"{asked.model} has no routes document: a delta needs a live generation to patch")
        return [_first(settings, asked)]
    live = document.live_generation(document.stable)
    if asked.is_delta:
        if live is None:
            raise Refused(f"version {document.stable} of {asked.model} has no generation that could be patched")
        return [_routed_target(document, document.stable, Role.DELTA, live.id)]
    targets = [_routed_target(document, document.stable, Role.STABLE)]
    fallback = document.fallback
    if fallback and at_ms - fallback.since_ms < settings.rescore_previous_days * _DAY_MS:
        targets.append(_routed_target(document, fallback.version, Role.PREVIOUS))
    return targets


def _first(settings: BatchSettings, asked: Asked) -> Target:
    """Without a routes document Redis is new, or was lost: then the files tell what was in service."""
    last = last_live(settings, asked.model)
    if last is not None:
        LOG.warning(
            "%s has no routes document; version %s was in service last, and is again", asked.model, last.version
        )
        return Target(Role.STABLE, last.bundle_url, last.bundle_digest)
    if asked.first_bundle is None:
        raise Refused(f"{asked.model} has no routes document yet: name the bundle of its first version")
    return Target(Role.STABLE, asked.first_bundle, asked.first_digest)


def _routed_target(document: RoutesDocument, version: str, role: Role, base: str | None = None) -> Target:
    found = document.versions[version]
    return Target(role, found.bundle_url, found.bundle_digest, base)


def role_of(target: Target, found: Bundle, document: RoutesDocument | None) -> Role:
    """A bundle that was named may be that of the version in service: then it is a refresh."""
    if target.role is Role.NEW and (document is None or document.stable == found.manifest.version):
        return Role.STABLE
    return target.role
