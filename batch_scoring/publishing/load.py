"""Loads a run's version on the replicas of the live tier, and waits until they say that it is warm there.

A replica loads at low priority beside what it serves, and takes traffic of the version only when it is warm; so
this step comes before the gate of a new version, and changes nothing for clients. It may be repeated.
"""

import time
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from redis import Redis

from batch_scoring.live_tier.client import LiveTierClient, ReplicaFault, Unavailable
from batch_scoring.live_tier.replicas import announced_replicas, wanted_by
from batch_scoring.runs import LOG, Refused, Run
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect
from schemas.replicas import Replica

STEP = "load"
_TRIES = 3
_PAUSE_S = 0.5
_TELL_EVERY_S = 5.0
_LOOK_EVERY_S = 0.1


@dataclass
class _Loading:
    """One call of the step. `faults`: why a replica did not load, by name; `already`: had it warm before."""

    run: Run
    settings: BatchSettings
    redis: Redis
    already: list[str]
    faults: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.wanted = wanted_by(self.run)
        self.began_s = time.monotonic()
        self.end_s = self.began_s + self.settings.load_timeout_s
        self.told_s = self.began_s

    @property
    def left_s(self) -> float:
        return max(0.0, self.end_s - time.monotonic())

    def replicas(self) -> list[Replica]:
        """Those that may serve it; one that drains takes nothing new."""
        return [one for one in announced_replicas(self.redis, self.settings) if not one.draining]

    def tell(self, words: str) -> None:
        """Says how far it is, each few seconds."""
        if (now_s := time.monotonic()) - self.told_s >= _TELL_EVERY_S:
            self.told_s = now_s
            at = f"{self.run.model} {self.run.generation}: after {now_s - self.began_s:.0f} s"
            LOG.info("%s %s", at, words)


def load(run: Run, settings: BatchSettings) -> dict[str, object]:
    """Returns who had it warm already, who has it now, and who was left out.

    Raises:
        Refused: no replica, no token, or fewer than the share of `load_least_share` have it warm in time.
    """
    with connect(settings) as redis:
        loading = _Loading(run, settings, redis, already=[])
        replicas = loading.replicas()
        if not replicas:
            raise Refused(
                "no replica of the live tier announces itself in Redis: start one, with INFERENCE_REDIS_URL set"
            )
        loading.already = [one.name for one in replicas if one.has_warm(loading.wanted)]
        cold = [one for one in replicas if not one.has_warm(loading.wanted)]
        old = [one for one in cold if one.http is None]
        for one in old:
            LOG.warning("replica %s does not say where its HTTP listens: it is left out; upgrade it", one.name)
        to_load = {one.name: one for one in cold if one.http is not None}
        LOG.info(
            "%s %s: version %s is warm on %d of %d replicas, to be loaded on %d",
            *(run.model, run.generation, run.version, len(loading.already), len(replicas), len(to_load)),
        )
        if to_load:
            _load_on(loading, to_load)
            _wait_until_announced(loading, to_load)
        return _report(loading, to_load, [one.name for one in old])


def _load_on(loading: _Loading, replicas: Mapping[str, Replica]) -> None:
    """Some at a time: loading reads the bundle from where it lies, and takes cores from serving."""
    token = _token(loading.settings)
    with ThreadPoolExecutor(loading.settings.load_at_once) as pool:
        waiting: dict[Future[None], str] = {
            pool.submit(_load_one, loading, replica, token): name for name, replica in replicas.items()
        }
        while waiting:
            done, _ = wait(waiting, timeout=_TELL_EVERY_S, return_when=FIRST_COMPLETED)
            for future in done:
                name, fault = waiting.pop(future), future.exception()
                if isinstance(fault, ReplicaFault):
                    loading.faults[name] = str(fault)
                    LOG.warning("replica %s did not load version %s: %s", name, loading.run.version, fault)
                elif fault is not None:
                    raise fault
                else:
                    LOG.info("replica %s has loaded version %s", name, loading.run.version)
            loading.tell(f"still loading on {', '.join(sorted(waiting.values()))}")


def _load_one(loading: _Loading, replica: Replica, token: str) -> None:
    """Raises ReplicaFault. A replica that cannot be reached may be starting anew: it is tried again."""
    for attempt in range(1, _TRIES + 1):
        if loading.left_s <= 0:
            raise Unavailable(f"its turn did not come within {loading.settings.load_timeout_s:g} s")
        try:
            with LiveTierClient() as client:
                client.load(replica, loading.wanted, loading.run.bundle_url, token, loading.left_s)
            return
        except Unavailable as fault:
            if attempt == _TRIES or loading.left_s <= 0:
                raise
            time.sleep(min(fault.retry_after_s or _PAUSE_S, loading.left_s))


def _wait_until_announced(loading: _Loading, replicas: Mapping[str, Replica]) -> None:
    """Until those that loaded say so in Redis, by which the gate goes; as long as a report is believed at most."""
    end_s = time.monotonic() + min(loading.left_s, loading.settings.replica_max_age_s)
    while True:
        warm = {one.name for one in loading.replicas() if one.has_warm(loading.wanted)}
        waiting = replicas.keys() - loading.faults.keys() - warm
        if not waiting:
            return
        if time.monotonic() >= end_s:
            loading.faults |= dict.fromkeys(waiting, "it has loaded, and does not announce it in Redis")
            return
        loading.tell(f"waiting for the announcement of {', '.join(sorted(waiting))}")
        time.sleep(_LOOK_EVERY_S)


def _report(loading: _Loading, tried: Mapping[str, Replica], left_out: list[str]) -> dict[str, object]:
    """Raises Refused where too few have it warm."""
    loaded = sorted(tried.keys() - loading.faults.keys())
    warm, of = len(loading.already) + len(loaded), len(loading.already) + len(tried)
    if warm == 0 or warm < loading.settings.load_least_share * of:
        reasons = [f"{name}: {words}" for name, words in sorted(loading.faults.items())]
        reasons += [f"{name}: an older replica, which does not say where its HTTP listens" for name in left_out]
        raise Refused(
            f"version {loading.run.version} is warm on {warm} of {of} replicas, and"
            f" {loading.settings.load_least_share:.0%} are wanted (BATCH_LOAD_LEAST_SHARE): {'; '.join(reasons)}"
        )
    return {
        "warm": warm,
        "replicas": of,
        "already_warm": loading.already,
        "loaded": loaded,
        "failed": loading.faults,
        "left_out": left_out,
        "took_s": round(time.monotonic() - loading.began_s, 3),
    }


def _token(settings: BatchSettings) -> str:
    """Raises Refused. Read each time, so that it can be replaced."""
    if settings.admin_token is None:
        raise Refused("BATCH_ADMIN_TOKEN names no file: the replicas load nothing without their token")
    try:
        token = settings.admin_token.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"the file of BATCH_ADMIN_TOKEN cannot be read: {error}") from None
    if len(token.split()) != 1:
        raise Refused("the file of BATCH_ADMIN_TOKEN holds no token, or several words")
    return token
