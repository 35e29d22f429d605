"""Makes a verified generation live, by one compare-and-set; rollback is another."""

from batch_scoring.fail_points import reach
from batch_scoring.publishing.document import change_document, live_generation
from batch_scoring.publishing.generation import need_loaded, need_verified
from batch_scoring.publishing.last_live import remember
from batch_scoring.publishing.tokens import unless_newer
from batch_scoring.runs import LOG, Refused, Role, Run
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect, now_ms
from schemas import transitions
from schemas.codec import CODEC_VERSION
from schemas.history import LiveSet
from schemas.releases import live_set
from schemas.routes import Activation, FeatureTable, Generation, RoutesDocument
from schemas.transitions import RefusedTransition

STEP = "activate"
_WORDS = {
    Role.STABLE: "activate {}",
    Role.NEW: "release {}",
    Role.PREVIOUS: "keep {} for a rollback",
    Role.DELTA: "patch with {}",
}


def activate(
    run: Run, settings: BatchSettings, token: int, why: str = "", by: str | None = None
) -> dict[str, object]:
    """Returns what is live now.

    Raises:
        Refused: an old token or interval, or Redis does not hold the generation as verified; nothing has changed.
    """
    run.need_report("gate")
    offer = offer_of(run, token)
    reach("activate.begun", settings.fail_point)
    with connect(settings) as redis:
        now = now_ms(redis)

        def transition(document: RoutesDocument | None) -> RoutesDocument:
            after = offered(document, run, offer, now)
            with unless_newer(redis, run):
                need_verified(redis, run)
            reach("activate.checked", settings.fail_point)
            return after

        words = _WORDS[run.role].format(run.generation)
        words = f"{words}: {why}" if why else words
        # A delta is fenced by the generation that it patches, and takes no token from a night that is under way.
        document = change_document(
            redis, run.model, words, transition, None if run.role is Role.DELTA else token, by
        )
    reach("activate.changed", settings.fail_point)
    remember(settings, document)
    LOG.info("%s %s: %s, revision %d.%d", run.model, run.generation, words, *document.order)
    return {"epoch": document.epoch, "revision": document.revision, "stable": document.stable}


def offered(document: RoutesDocument | None, run: Run, offer: Activation, now_ms: int) -> RoutesDocument:
    """The document with what the run offers, by its role; the very same where it holds it already.

    Raises:
        RefusedTransition: as the transitions of `schemas.transitions`, or a refresh of a version that is no longer
            in service.
    """
    if document is None:
        if run.role in (Role.PREVIOUS, Role.DELTA):
            raise RefusedTransition(f"{run.model} has no routes document, which a {run.role} run adds to")
        return transitions.first_document(offer, now_ms)
    live = document.live_generation(run.version)
    if run.role is Role.DELTA:
        assert run.base is not None, "begin gives a delta its base"
        if live is not None and any(delta.id == run.generation for delta in live.deltas):
            return document
        return transitions.patch(document, offer, run.base, now_ms)
    if (
        live is not None
        and live.id == run.generation
        and (run.role is Role.PREVIOUS or document.stable == run.version)
    ):
        return document
    if run.role is Role.PREVIOUS:
        return transitions.renew(document, offer, now_ms)
    if run.role is Role.STABLE and document.stable != run.version:
        raise RefusedTransition(
            f"version {document.stable} is in service, and this run refreshes version {run.version}: a night does"
            " not change the version, `rollback --to` or a release does"
        )
    return transitions.activate(document, offer, now_ms)


def offer_of(run: Run, token: int) -> Activation:
    published, features = run.need_report("publish"), run.need_report("features")
    return Activation.model_validate(
        {
            "model": run.model,
            "version": run.version,
            "bundle_url": run.bundle_url,
            "bundle_digest": run.bundle_digest,
            "token": token,
            "generation": Generation.model_validate(
                {
                    "id": run.generation,
                    "ordinal": run.ordinal,
                    "buckets": published["buckets"],
                    "codec": CODEC_VERSION,
                    "rows": published["rows"],
                    "computed_at_ms": run.started_at_ms,
                }
            ),
            "features": FeatureTable.model_validate(
                {
                    "id": run.generation,
                    "buckets": features["buckets"],
                    "features": features["features"],
                    "rows": features["loaded"],
                    "as_of_ms": int(run.as_of.timestamp() * 1000),
                    "snapshot_url": run.place("features.arrow"),
                }
            ),
        }
    )


def rollback(
    settings: BatchSettings,
    model: str,
    why: str,
    by: str | None = None,
    leaving: LiveSet | None = None,
    to: str | None = None,
) -> RoutesDocument:
    """Goes back to what was live before, or to the newest generation of another version.

    Args:
        leaving: version and generation that must be live (default: those that are at the first look), so that a
            rollback that two people ask for, or a retry after a lost reply, never goes forward again.
        to: the version; default: whatever was live before.

    Raises:
        Refused: there is nothing to go back to, it has gone, or something else is live than `leaving`.
    """
    with connect(settings) as redis:
        now = now_ms(redis)

        def transition(document: RoutesDocument | None) -> RoutesDocument:
            nonlocal leaving
            if document is None:
                raise Refused(f"{model} has no routes document")
            live = live_set(document)
            leaving = leaving or live
            if live != leaving:
                raise Refused(
                    f"generation {live[1]} of version {live[0]} is live, not {leaving[1]} of {leaving[0]}:"
                    " it has been changed already; look again before you roll back"
                )
            after = back(document, to, now)
            need_loaded(redis, after)
            return after

        document = change_document(redis, model, f"rollback: {why}", transition, by=by)
    remember(settings, document)
    LOG.info("%s: back to version %s, generation %s", model, document.stable, live_generation(document))
    return document


def back(document: RoutesDocument, to: str | None, now_ms: int) -> RoutesDocument:
    """Raises RefusedTransition as `schemas.transitions.rollback` and `switch`."""
    return transitions.switch(document, to, now_ms) if to else transitions.rollback(document, now_ms)
