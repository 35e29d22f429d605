"""The generations of a model with gates, state and activation, joined of what Redis and run folders say. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from schemas.history import Change, LiveSet, last_switch_to
from schemas.names import interval_of, parse_generation
from schemas.routes import Generation, RoutesDocument
from schemas.run_folders import RunFacts, RunFolders

GATES = ("verify", "gate")


class State(StrEnum):
    """Where a generation is. `UNKNOWN` where Redis cannot be read and the files do not say."""

    ACTIVE = "active"
    ROUTED = "routed"  # the newest of a version that an experiment, shadow or cascade names
    DELTA = "patches the active one"
    ROLLBACK = "kept for rollback"
    FALLBACK = "version kept ready"
    LOADED = "loaded"
    READY = "ready to activate"
    UNFINISHED = "unfinished"
    REFUSED = "refused"
    SUPERSEDED = "superseded"
    OUT = "out of service"
    DELETED = "deleted"
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    PASSED = "passed"
    WARNED = "passed with warnings"
    REFUSED = "refused"
    NOT_RUN = "not run"
    UNKNOWN = "unknown"  # the run's folder has gone


@dataclass(frozen=True, slots=True)
class Gate:
    """What a step that lets through or refuses has said. `at`: ISO 8601."""

    step: str
    outcome: Outcome
    at: str | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class Release:
    """A generation.

    Attributes:
        reckoned_bytes: what publishing expected it to take in Redis.
        gates: those of `GATES`, in order; then the other steps whose last attempt was refused.
        activated: the last change that made it live.
    """

    version: str
    generation: str
    state: State
    rows: int | None
    buckets: int | None
    deltas: int
    reckoned_bytes: int | None
    computed_at_ms: int | None
    gates: tuple[Gate, ...]
    activated: Change | None


def releases(
    document: RoutesDocument | None, changes: list[Change], folders: RunFolders, *, is_redis_known: bool = True
) -> list[Release]:
    """The active one first, then the newest first.

    Args:
        is_redis_known: False where `document` is None because Redis could not be read.
    """
    known = _documented(document)
    runs = {(run.version, run.generation): run for run in folders.runs.values()}
    switched = last_switch_to(changes)
    found = [
        _release(key, document, known.get(key), runs.get(key), switched.get(key), is_redis_known)
        for key in known.keys() | runs.keys()
    ]
    found.sort(key=lambda one: (parse_generation(one.generation), one.version), reverse=True)
    return sorted(found, key=lambda one: one.state is not State.ACTIVE)


def active_since(document: RoutesDocument, changes: list[Change]) -> Change | None:
    """The change that made live what is live; None where the history no longer reaches back to it."""
    return last_switch_to(changes).get(live_set(document))


def live_set(document: RoutesDocument) -> LiveSet:
    live = document.live_generation(document.stable)
    return document.stable, live.id if live else None


def rollback_set(document: RoutesDocument) -> LiveSet | None:
    """What a rollback would make live, or None where nothing was live before."""
    return (document.previous.stable, document.previous.generation) if document.previous else None


def fallback_set(document: RoutesDocument) -> LiveSet | None:
    """The version before and its newest generation, which `rollback --to` makes live; None where there is none."""
    if document.fallback is None:
        return None
    newest = document.live_generation(document.fallback.version)
    return document.fallback.version, newest.id if newest else None


def _documented(document: RoutesDocument | None) -> dict[tuple[str, str], Generation]:
    return {(name, one.id): one for name, one in document.generations} if document else {}


def _release(
    key: tuple[str, str],
    document: RoutesDocument | None,
    loaded: Generation | None,
    run: RunFacts | None,
    activated: Change | None,
    is_redis_known: bool,
) -> Release:
    score: Mapping[str, Any] = run.reports.get("score", {}) if run else {}
    publish: Mapping[str, Any] = run.reports.get("publish", {}) if run else {}
    return Release(
        version=key[0],
        generation=key[1],
        state=_state(key, document, loaded, run, activated, is_redis_known),
        rows=loaded.rows if loaded else _count(score, "rows"),
        buckets=loaded.buckets if loaded else _count(score, "buckets"),
        deltas=len(loaded.deltas) if loaded else 0,
        reckoned_bytes=_count(publish, "needed_bytes"),
        computed_at_ms=loaded.computed_at_ms if loaded else run.computed_at_ms if run else None,
        gates=tuple(_gate(step, run) for step in (*GATES, *_other_refused(run))),
        activated=activated,
    )


def _state(
    key: tuple[str, str],
    document: RoutesDocument | None,
    loaded: Generation | None,
    run: RunFacts | None,
    activated: Change | None,
    is_redis_known: bool,
) -> State:
    if document is not None and loaded is not None:
        return _state_in_service(key, document)
    assert run is not None, "a release is in the document or on disk"
    if "deleted" in run.reports:
        return State.DELETED
    if not is_redis_known and "activate" in run.reports:
        return State.UNKNOWN
    if activated or "activate" in run.reports:
        return State.OUT
    if run.refusals:
        return State.REFUSED
    if document is not None and document.interval and interval_of(key[1]) < document.interval:
        return State.SUPERSEDED
    return State.READY if "gate" in run.reports else State.UNFINISHED


def _state_in_service(key: tuple[str, str], document: RoutesDocument) -> State:
    if key == live_set(document):
        return State.ACTIVE
    newest = document.live_generation(key[0])
    if key[0] == document.stable and newest and key[1] in {delta.id for delta in newest.deltas}:
        return State.DELTA
    if key[0] in document.routed_versions - {document.stable} and newest and newest.id == key[1]:
        return State.ROUTED
    if key == rollback_set(document):
        return State.ROLLBACK
    return State.FALLBACK if key == fallback_set(document) else State.LOADED


def _other_refused(run: RunFacts | None) -> list[str]:
    return [step for step in run.refusals if step not in GATES] if run else []


def _gate(step: str, run: RunFacts | None) -> Gate:
    if run is None:
        return Gate(step, Outcome.UNKNOWN, words="its run folder is not there")
    if refusal := run.refusals.get(step):
        return Gate(step, Outcome.REFUSED, refusal.refused_at, refusal.reason)
    report = run.reports.get(step)
    if report is None:
        return Gate(step, Outcome.NOT_RUN)
    at = str(report.get("finished_at") or "") or None
    warnings = report.get("warnings")
    if isinstance(warnings, list) and warnings:
        return Gate(step, Outcome.WARNED, at, "; ".join(map(str, warnings)))
    return Gate(step, Outcome.PASSED, at, _words(step, report))


def _words(step: str, report: Mapping[str, Any]) -> str:
    if step == "verify":
        rows, read_back = _count(report, "rows"), _count(report, "read_back")
        return f"{rows or 0:,} rows compared, {read_back or 0:,} read back{_parity_words(report.get('parity'))}"
    warm = report.get("warm_replicas")
    return f"{report.get('case', 'release')}, warm on {len(warm) if isinstance(warm, list) else 0} replica(s)"


def _parity_words(parity: object) -> str:
    if not isinstance(parity, Mapping):
        return ""
    if parity.get("skipped"):
        return ", the live tier not asked" if not _count(parity, "compared") else ", the live tier asked in part"
    return f", {_count(parity, 'equal') or 0:,} of {_count(parity, 'compared') or 0:,} as the live tier answers"


def _count(report: Mapping[str, Any], name: str) -> int | None:
    found = report.get(name)
    return found if isinstance(found, int) else None
