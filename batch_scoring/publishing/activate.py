"""Makes a verified generation live, by one compare-and-set; rollback is another."""

from batch_scoring.publishing.document import change_document, live_generation
from batch_scoring.publishing.generation import need_loaded, need_verified
from batch_scoring.runs import LOG, Refused, Run
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect, now_ms
from schemas import routes
from schemas.codec import CODEC_VERSION
from schemas.history import LiveSet
from schemas.releases import live_set
from schemas.routes import Activation, FeatureTable, Generation, RoutesDocument

STEP = "activate"


def activate(
    run: Run, settings: BatchSettings, token: int, why: str = "", by: str | None = None
) -> dict[str, object]:
    """Returns what is live now.

    Raises:
        Refused: an old token or interval, or Redis does not hold the generation as verified; nothing has changed.
    """
    run.need_report("gate")
    offer = offer_of(run, token)
    with connect(settings) as redis:
        now = now_ms(redis)

        def transition(document: RoutesDocument | None) -> RoutesDocument:
            if document is None:
                after = routes.first_document(offer, now)
            elif document.stable == run.version and live_generation(document) == run.generation:
                after = document
            else:
                after = routes.activate(document, offer, now)
            need_verified(redis, run)
            return after

        words = f"activate {run.generation}: {why}" if why else f"activate {run.generation}"
        document = change_document(redis, run.model, words, transition, token, by)
    LOG.info("%s %s: live as revision %d.%d", run.model, run.generation, *document.order)
    return {"epoch": document.epoch, "revision": document.revision, "stable": document.stable}


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
    settings: BatchSettings, model: str, why: str, by: str | None = None, leaving: LiveSet | None = None
) -> RoutesDocument:
    """Goes back to what was live before.

    Args:
        leaving: version and generation that must be live (default: those that are at the first look), so that a
            rollback that two people ask for, or a retry after a lost reply, never goes forward again.

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
            after = routes.rollback(document, now)
            need_loaded(redis, after)
            return after

        document = change_document(redis, model, f"rollback: {why}", transition, by=by)
    LOG.info("%s: back to version %s, generation %s", model, document.stable, live_generation(document))
    return document
