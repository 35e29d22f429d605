"""What the gate makes of what was found: facts in, verdict out. Pure.

`lacks` are what a new version is refused for, and what a refresh is warned of; `warnings` refuse nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from batch_scoring.publishing.memory import Room
from batch_scoring.runs import Role
from schemas.routes import RoutesDocument

GENERATIONS_A_VERSION = 2
TABLES = 2
# Roles of a run that leave the version in service as it is.
_REFRESHING = (Role.PREVIOUS, Role.DELTA)
_SHOWN = 3


class Case(StrEnum):
    FIRST = "first"
    REFRESH = "refresh"
    NEW = "new version"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`numbers`: what it was decided by, for the report."""

    lacks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    numbers: Mapping[str, object] = field(default_factory=dict)


def case_of(role: Role, document: RoutesDocument | None, version: str) -> Case:
    """A run that began as a refresh is a new version where another one has gone into service meanwhile."""
    if document is None:
        return Case.FIRST
    return Case.REFRESH if role in _REFRESHING or document.stable == version else Case.NEW


def of_replicas(version: str, warm: int) -> Verdict:
    if warm:
        return Verdict()
    return Verdict((f"no replica reports version {version} warm: its tail would get 503; load it there",))


def of_parity(parity: Mapping[str, Any] | None, max_numeric_share: float) -> Verdict:
    """`parity`: as `parity.parity` reports it; None where verify did not run it."""
    if parity is None:
        return Verdict(("verify did not compare it with the live tier: run verify again",))
    lacks, warnings = [], []
    if parity["other_bundle"]:
        names = ", ".join(parity["other_bundle"])
        lacks.append(f"wrong model: {names} serves this version's name from another bundle")
    if parity["skipped"]:
        lacks.append(f"parity with the live tier was not checked: {parity['skipped']}")
    compared, wrong, numeric, drift = (
        parity[name] for name in ("compared", "wrong_model", "numeric", "feature_drift")
    )
    if wrong:
        lacks.append(
            f"wrong model: {wrong:,} of {compared:,} live answers are others{_examples(parity, 'wrong_model')}"
        )
    if numeric > max_numeric_share * compared:
        lacks.append(
            f"{numeric:,} of {compared:,} live answers are outside the tolerance, more than the"
            f" {max_numeric_share:.1%} of BATCH_MAX_NUMERIC_SHARE{_examples(parity, 'numeric')}"
        )
    elif numeric:
        warnings.append(f"{numeric:,} of {compared:,} live answers are just outside the tolerance")
    if drift:
        told = _examples(parity, "feature_drift")
        warnings.append(f"features of {drift:,} of {compared:,} entities have changed since the computation{told}")
    return Verdict(tuple(lacks), tuple(warnings))


def _examples(parity: Mapping[str, Any], kind: str) -> str:
    worst = [one for one in parity["worst"] if one["kind"] == kind][:_SHOWN]
    told = [f"{one['output']} of {one['entity']!r} is {one['live']}, stored {one['stored']}" for one in worst]
    return f": {'; '.join(told)}" if told else ""


@dataclass(frozen=True, slots=True)
class Loads:
    """Of a model in Redis once this generation is live.

    Attributes:
        versions: those that answer somebody, and the one that a rollback goes to, which is computed anew as well.
        generations, tables: how many more there will be when the next night has loaded its own.
    """

    versions: int
    generations: int
    tables: int


def loads_to_come(case: Case, document: RoutesDocument | None, version: str, generation: str) -> Loads:
    """Two generations of each version and two feature tables, less what is loaded, this generation included."""
    if document is None:
        return Loads(1, GENERATIONS_A_VERSION - 1, TABLES - 1)
    loaded = {name: set[str]() for name in _versions(case, document, version)}
    for name in loaded.keys() & document.versions.keys():
        loaded[name] = {one.id for one in document.versions[name].generations}
    if version in loaded:
        loaded[version].add(generation)
    missing = sum(max(0, GENERATIONS_A_VERSION - len(ids)) for ids in loaded.values())
    kept = [one.features for one in (document.previous, document.fallback) if one]
    tables = {generation} | {table.id for table in (document.features, *kept) if table}
    return Loads(len(loaded), missing, max(0, TABLES - len(tables)))


def _versions(case: Case, document: RoutesDocument, version: str) -> frozenset[str]:
    """Routed once this one is live, and the one before."""
    if case is Case.NEW:
        return document.model_copy(update={"stable": version}).routed_versions | {document.stable}
    return document.routed_versions | ({document.fallback.version} if document.fallback else set())


def of_memory(room: Room, loads: Loads, generation_bytes: int, table_bytes: int, reserve: float) -> Verdict:
    """Whether what is to come fits beside what is there and the reserve.

    Args:
        generation_bytes, table_bytes: about what each more will take.
        reserve: share of the memory that is kept for written-back results; `room.left` leaves it out.
    """
    needed = loads.generations * generation_bytes + loads.tables * table_bytes
    numbers = {
        "used_bytes": room.used,
        "maxmemory_bytes": room.most,
        "left_bytes": room.left if room.most else None,
        "versions": loads.versions,
        "generations_to_come": loads.generations,
        "needed_bytes": needed,
    }
    if not room.most or room.left >= needed:
        return Verdict(numbers=numbers)
    words = (
        f"Redis uses {room.used:,} of {room.most:,} bytes, which leaves {max(0, room.left):,} beside the"
        f" {reserve:.0%} reserved for written-back results, and {loads.generations} more generation(s) of"
        f" {loads.versions} version(s) need about {needed:,}: raise maxmemory"
    )
    return Verdict((words,), numbers=numbers)


def of_capacity(
    version: str, peak_per_s: float | None, miss_share: float | None, rows_per_s: Mapping[str, float | None]
) -> Verdict:
    """Whether the warm replicas can take the tail of the busiest minute; an empty cache is only warned of.

    Args:
        peak_per_s: requests a second of the log's busiest minute; None where it is not known.
        miss_share: share of that minute's requests that the generation has no answer for.
        rows_per_s: what each warm replica may be given; None where its T(b) is not known.
    """
    known = {name: rate for name, rate in rows_per_s.items() if rate is not None}
    capacity = sum(known.values()) if known else None
    tail = None if peak_per_s is None or miss_share is None else peak_per_s * miss_share
    numbers: dict[str, object] = {"peak_per_s": peak_per_s, "peak_miss_share": miss_share, "tail_per_s": tail}
    numbers |= {"cold_per_s": peak_per_s, "capacity_rows_per_s": capacity, "replicas": dict(rows_per_s)}
    warnings = [f"T(b) of replica {name} is not known: it is not counted on" for name in rows_per_s.keys() - known]
    if tail is None or peak_per_s is None:
        unknown = (
            "the busiest minute of the log is unknown: whether the live tier can take the tail is not checked"
        )
        return Verdict((), (*sorted(warnings), unknown), numbers)
    if capacity is None:
        if rows_per_s:
            warnings.append("no replica's T(b) is known: whether the live tier can take the tail is not checked")
        return Verdict((), tuple(sorted(warnings)), numbers)
    can = f"the {len(known)} replica(s) with version {version} warm can take {capacity:,.1f}"
    if tail > capacity:
        tail_told = f"{tail:,.1f} live requests/s ({peak_per_s:,.1f}, {miss_share:.1%} not precomputed)"
        lack = f"the busiest minute's tail is {tail_told}, and {can}: add replicas or a larger hot set"
        return Verdict((lack,), tuple(warnings), numbers)
    if peak_per_s > capacity:
        warnings.append(f"with an empty cache the busiest minute is {peak_per_s:,.1f} live requests/s, and {can}")
    return Verdict((), tuple(warnings), numbers)
