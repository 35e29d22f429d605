"""Whether a verified generation may go live. A refresh only warns, stale being worse; a new version earns it.

Gathers the facts; what follows from them is `verdicts`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from redis import Redis

from batch_scoring.live_tier.replicas import announced_replicas, wanted_by
from batch_scoring.publishing import verdicts
from batch_scoring.publishing.document import read_document
from batch_scoring.publishing.memory import room
from batch_scoring.publishing.verdicts import Case
from batch_scoring.runs import LOG, Refused, Role, Run
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect
from schemas.capacity import replica_rows_per_s
from schemas.replicas import Replica, Wanted

STEP = "gate"


def gate(run: Run, settings: BatchSettings) -> dict[str, object]:
    """Says what was found, with the numbers.

    Raises:
        Refused: a new version that has not earned to replace the one in service.
    """
    verified = run.need_report("verify")
    with connect(settings) as redis:
        document = read_document(redis, run.model)
        replicas = [one for one in announced_replicas(redis, settings) if one.has_warm(wanted_by(run))]
        memory = room(redis, settings)
    case = verdicts.case_of(run.role, document, run.version)
    parity: Any = verified.get("parity")
    loads = verdicts.loads_to_come(case, document, run.version, run.generation)
    generation_bytes, table_bytes = (
        int(_number(run.report(step), "needed_bytes") or 0) for step in ("publish", "features")
    )
    found = {
        "replicas": verdicts.of_replicas(run.version, len(replicas)),
        "parity": verdicts.of_parity(parity, settings.max_numeric_share),
        "memory": verdicts.of_memory(memory, loads, generation_bytes, table_bytes, settings.memory_reserve),
        "capacity": _capacity(run, settings, replicas),
    }
    numbers = {name: dict(verdict.numbers) for name, verdict in found.items() if verdict.numbers}
    judged = {"case": case.value, "warm_replicas": [one.name for one in replicas], "parity": parity, **numbers}
    lacks = [words for verdict in found.values() for words in verdict.lacks]
    if lacks and case is Case.NEW:
        raise Refused("; ".join(lacks), judged)
    warnings = [*lacks, *(words for verdict in found.values() for words in verdict.warnings)]
    if run.count("score", "rows") == 0:
        warnings.append("the generation is empty: every answer will be live")
    for warning in warnings:
        LOG.warning("%s %s: %s", run.model, run.generation, warning)
    return {**judged, "warnings": warnings}


def _capacity(run: Run, settings: BatchSettings, replicas: Sequence[Replica]) -> verdicts.Verdict:
    if run.role is Role.DELTA:  # it sends nobody elsewhere
        return verdicts.Verdict()
    selected = run.report("select")
    peak = _number(selected, "peak_minute_requests")
    peak_per_s = None if peak is None else peak / 60
    miss_share = _number(selected, "peak_minute_miss_share")
    if miss_share is None and (coverage := _number(selected, "coverage_weighted")) is not None:
        # A run of an older program: the mean, which the busiest minute may be worse than.
        miss_share = 1 - coverage
    rates = {one.name: _rows_per_s(one, wanted_by(run), settings) for one in replicas}
    return verdicts.of_capacity(run.version, peak_per_s, miss_share, rates)


def _rows_per_s(replica: Replica, wanted: Wanted, settings: BatchSettings) -> float | None:
    found = replica.batch_time(wanted)
    if found is None:
        return None
    # A row that comes just after a batch has begun waits for it, and is then answered by the next.
    return replica_rows_per_s(*found, max_batch_ms=settings.slo_ms / 2)


def _number(report: Mapping[str, object] | None, name: str) -> float | None:
    found = (report or {}).get(name)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def replicas_with(redis: Redis, wanted: tuple[str, str, str], settings: BatchSettings) -> list[str]:
    """Names of the replicas that said lately that they have a model, version and bundle digest warm."""
    this = Wanted(*wanted)
    return [one.name for one in announced_replicas(redis, settings) if one.has_warm(this)]
