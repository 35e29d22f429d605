"""Of two runs of a model the one that began later goes live: the token of each beginning says which that is."""

from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis

from batch_scoring.faults import NotTaken
from batch_scoring.runs import Refused, Role, Run
from schemas.keys import run_key


def newest_token(redis: Redis, run: Run) -> int:
    """That of the model; 0 where Redis has lost it. A delta is fenced by its base: for one it is its own."""
    return run.token if run.role is Role.DELTA else int(redis.get(run_key(run.model)) or 0)


@contextmanager
def unless_newer(redis: Redis, run: Run) -> Iterator[None]:
    """What fails inside is refused where a newer run has begun: that one deletes what earlier runs loaded, so that
    trying again would neither help nor go live.

    Raises:
        Refused: such a run has begun, or by what is inside.
        NotTaken: by what is inside.
    """
    try:
        yield
    except (Refused, NotTaken) as fault:
        newest = newest_token(redis, run)
        if newest <= run.token:
            raise
        raise Refused(
            f"{superseded(run, newest)}, and deletes what earlier ones loaded; what failed here is: {fault}"
        ) from fault


def superseded(run: Run, newest: int) -> str:
    """That the run cannot go live any more, as the beginning of a sentence."""
    token = f"run token {run.token} of {run.generation}"
    return f"{token} is no longer the newest, which is {newest or 'lost'}: a newer run has begun"
