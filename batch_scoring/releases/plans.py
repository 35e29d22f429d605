"""What a command would change, found before anybody is asked: what is refused is refused first.

The changes themselves are those of `batch_scoring.publishing`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from redis import Redis

from batch_scoring.files import absolute, read_json
from batch_scoring.publishing import activate as activation
from batch_scoring.publishing.document import read_document
from batch_scoring.publishing.gate import replicas_with
from batch_scoring.publishing.generation import need_loaded, need_verified
from batch_scoring.publishing.tokens import newest_token, superseded
from batch_scoring.releases.look import check_model
from batch_scoring.runs import Refused, Role, Run
from batch_scoring.settings import BatchSettings
from batch_scoring.store import now_ms
from schemas import transitions
from schemas.history import LiveSet
from schemas.names import parse_generation, run_path
from schemas.releases import live_set
from schemas.routes import RoutesDocument
from schemas.run_folders import refusal_file
from schemas.transitions import RefusedTransition


@dataclass(frozen=True, slots=True)
class Plan:
    """`act` does it; None where nothing would change. `words` say what it would do, `warnings` what is risky."""

    model: str
    before: LiveSet | None
    after: LiveSet
    words: str
    act: Callable[[], object] | None
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Back:
    """What a rollback is asked for: why and by whom, `leaving` which generation, `to` which version."""

    why: str
    by: str | None = None
    leaving: str | None = None
    to: str | None = None


def plan_rollback(redis: Redis, settings: BatchSettings, model: str, asked: Back) -> Plan:
    """Nothing to do where `leaving` is not live. Raises Refused as the rollback itself would."""
    document = _document(redis, model)
    before = live_set(document)
    if asked.leaving is not None and before[1] != asked.leaving:
        return Plan(model, before, before, f"{asked.leaving} is not live, {named(before)} is: nothing to do", None)
    if asked.to == document.stable:
        return Plan(model, before, before, f"version {asked.to} of {model} is live already", None)
    try:
        after = activation.back(document, asked.to, now_ms(redis))
    except RefusedTransition as error:
        raise Refused(f"{error}; `show --model {model}` says what there is") from None
    need_loaded(redis, after)
    return Plan(
        model,
        before,
        live_set(after),
        f"roll {model} back from {named(before)} to {named(live_set(after))}",
        lambda: activation.rollback(settings, model, asked.why, asked.by, before, asked.to),
        _replica_warnings(redis, settings, document, after),
    )


def plan_activate(
    redis: Redis, settings: BatchSettings, model: str, generation: str, why: str, by: str | None
) -> Plan:
    """Raises Refused as the activation would: not verified, not through its gate, an older interval or token."""
    run = run_of(settings, model, generation)
    run.need_report("gate")
    if refusal := read_json(run.place(refusal_file("gate"))):
        raise Refused(f"the gate refused {generation} at {refusal['refused_at']}: {refusal['reason']}")
    need_verified(redis, run)
    document = read_document(redis, model)
    before = live_set(document) if document else None
    try:
        changed = activation.offered(document, run, activation.offer_of(run, run.token), now_ms(redis))
    except RefusedTransition as error:
        is_loaded = document is not None and (run.version, generation) in _loaded(document)
        back = f"; `rollback --model {model}` goes back to what was live before" if is_loaded else ""
        raise Refused(f"{error}{back}") from None
    after = live_set(changed)
    if changed is document:
        is_live = after == (run.version, generation)
        where = "is live already" if is_live else "is in place already"
        return Plan(model, before, after, f"{generation} of version {run.version} of {model} {where}", None)
    newest = newest_token(redis, run)
    if newest != run.token:
        raise Refused(
            f"{superseded(run, newest)}, which is to activate its own; to activate this one all the same, `begin`"
            f" it again with its run key, {run.run_key!r}, which takes a new token"
        )

    def act() -> None:
        run.finish(activation.STEP, activation.activate(run, settings, run.token, why, by))

    return Plan(
        model,
        before,
        after,
        _activation_words(run, named(before) if before else "nothing"),
        act,
        _replica_warnings(redis, settings, document, changed),
    )


def plan_retire(redis: Redis, settings: BatchSettings, model: str, by: str | None) -> Plan:
    """Raises Refused where nothing is live, or the live run has no folder."""
    from batch_scoring.publishing import retire

    document = _document(redis, model)
    live = live_set(document)
    if live[1] is None:
        raise Refused(f"version {live[0]} of {model} is live without a generation: activate one first")
    run = run_of(settings, model, live[1])
    _, gone = transitions.retire(document, settings.keep_generations, settings.keep_versions, now_ms(redis))
    taken = [f"{generation.id} of version {version}" for version, generation in gone.generations]
    taken += [f"feature table {table.id}" for table in gone.features]
    what = f"take out of service {', '.join(taken)}" if taken else "take nothing more out of service"
    words = (
        f"retire of {model}: {what}, and delete from Redis what has been out of service for"
        f" {settings.retire_after_s} s and what earlier runs loaded and never activated"
    )
    return Plan(model, live, live, words, lambda: retire.retire(run, settings, by))


def run_of(settings: BatchSettings, model: str, generation: str) -> Run:
    """Raises Refused where it is no generation, or has no run folder."""
    check_model(model)
    try:
        parse_generation(generation)
    except ValueError as error:
        raise Refused(str(error)) from None
    url = f"{absolute(settings.data_url)}/{run_path(model, generation)}/run.json"
    try:
        return Run.load(url)
    except Refused as refusal:
        raise Refused(f"{refusal}; `list --model {model}` names the generations there are") from None


def named(live: LiveSet) -> str:
    return f"{live[1]} of version {live[0]}" if live[1] else f"version {live[0]} without a generation"


def _document(redis: Redis, model: str) -> RoutesDocument:
    document = read_document(redis, check_model(model))
    if document is None:
        raise Refused(f"{model} has no routes document: no night has been activated yet")
    return document


def _activation_words(run: Run, before: str) -> str:
    offered = f"{run.generation} of version {run.version} of {run.model}"
    if run.role is Role.PREVIOUS:
        return f"keep {offered} for a rollback; {before} stays live"
    if run.role is Role.DELTA:
        return f"patch {before} with {offered}"
    return f"activate {offered} in place of {before}"


def _loaded(document: RoutesDocument) -> set[tuple[str, str]]:
    return {(version, one.id) for version, one in document.generations}


def _replica_warnings(
    redis: Redis, settings: BatchSettings, before: RoutesDocument | None, after: RoutesDocument
) -> list[str]:
    """A change of version needs a replica for its tail; one within a version does not make that worse."""
    if before is not None and before.stable == after.stable:
        return []
    digest = after.versions[after.stable].bundle_digest
    if replicas_with(redis, (after.model, after.stable, digest), settings):
        return []
    return [f"no replica reports version {after.stable} warm: its tail gets 503 until one has loaded it"]
