"""Reading and changing the routes document: transitions of `schemas.routes`, applied by compare-and-set."""

from collections.abc import Callable

import orjson
from pydantic import ValidationError
from redis import Redis

from batch_scoring.runs import Refused, this_user, utc_now
from schemas.keys import history_key, routes_channel, routes_key, run_key
from schemas.routes import COMPARE_AND_SET_LUA, MAX_HISTORY, RoutesDocument
from schemas.transitions import RefusedTransition

_MAX_TRIES = 20
Transition = Callable[[RoutesDocument | None], RoutesDocument]


def read_document(redis: Redis, model: str) -> RoutesDocument | None:
    """The document, or None where there is none. Raises Refused where it cannot be read."""
    raw = redis.get(routes_key(model))
    if raw is None:
        return None
    try:
        return RoutesDocument.model_validate_json(raw)
    except ValidationError as error:
        raise Refused(f"{routes_key(model)} is no routes document: {error}") from None


def change_document(
    redis: Redis,
    model: str,
    why: str,
    transition: Transition,
    token: int | None = None,
    by: str | None = None,
) -> RoutesDocument:
    """Applies a transition to the present document, again where another change came first.

    Args:
        transition: pure; given None where there is no document. Returning what it was given changes nothing.
        token: the run's; where it is no longer the newest, nothing is changed.
        by: who asks for it, for the history (default: this process's user and host).

    Raises:
        Refused: by the transition, for an old token, or because others never stopped changing it.
    """
    script = redis.register_script(COMPARE_AND_SET_LUA)
    for _ in range(_MAX_TRIES):
        before = read_document(redis, model)
        try:
            after = transition(before)
        except RefusedTransition as error:
            raise Refused(str(error)) from None
        if after is before:
            return after
        epoch, revision = before.order if before else (0, 0)
        line: dict[str, str | None] = {"at": utc_now(), "why": why, "by": by or this_user()}
        line |= {"from": f"{epoch}.{revision}"}
        line |= {
            "to": f"{after.epoch}.{after.revision}",
            "stable": after.stable,
            "generation": live_generation(after),
        }
        verdict, found = script(
            keys=[routes_key(model), run_key(model), history_key(model)],
            args=[
                epoch,
                revision,
                after.model_dump_json(),
                orjson.dumps(line),
                MAX_HISTORY,
                "" if token is None else token,
                routes_channel(model),
            ],
        )
        if verdict == b"ok":
            return after
        if verdict == b"token":
            raise Refused(
                f"run token {token} is no longer the newest, which is {found.decode() or 'lost'}:"
                " a newer run has begun"
            )
    raise Refused(f"the routes document of {model} kept changing: try again")


def live_generation(document: RoutesDocument) -> str | None:
    found = document.live_generation(document.stable)
    return found.id if found else None
