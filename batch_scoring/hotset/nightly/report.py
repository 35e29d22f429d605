"""What a night says of its choice: the step's report, and `hotset-report.json` with its picture."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import fsspec

from batch_scoring.files import write_json
from batch_scoring.hotset import chart
from batch_scoring.hotset.choosing import Choice
from batch_scoring.hotset.measures import WindowResult, totals
from batch_scoring.hotset.nightly.deciding import Decision
from batch_scoring.hotset.nightly.log_rows import UNKNOWN_VERSION
from batch_scoring.hotset.nightly.night import Night
from batch_scoring.hotset.nightly.traffic import Traffic
from batch_scoring.hotset.nightly.trying import Trial
from batch_scoring.hotset.proving import Proof
from batch_scoring.hotset.trace import DAY_S
from schemas import hotset_report as said
from schemas.capacity import replicas_needed
from schemas.names import HOTSET_PICTURE_FILE, HOTSET_REPORT_FILE

_NAMED = 20


@dataclass(frozen=True)
class Outcome:
    """
    Attributes:
        choice: what was written.
        curve: (share of the known entities, share of the traffic), the most asked for first.
        asked: entities that were asked for.
    """

    trial: Trial
    choice: Choice
    decision: Decision
    curve: list[tuple[float, float]]
    asked: int
    traffic: Traffic


def step_report(night: Night, outcome: Outcome) -> dict[str, object]:
    """`report-select.json`, for the steps after it."""
    traffic, files = outcome.traffic, night.files
    return {
        "known": night.given.known,
        "budget": outcome.choice.fixed_slots,
        "chosen": len(outcome.choice.entities),
        "used": outcome.decision.used.value,
        "reason": outcome.decision.reason,
        "rows_read": files.rows,
        "rows_set_aside": _set_aside(night),
        "log_files": len(files.good),
        "log_files_aside": files.aside,
        "entities_seen": outcome.asked,
        "requests": traffic.requests,
        "coverage": outcome.traffic.coverage,
        "coverage_weighted": traffic.coverage_weighted,
        "peak_minute_requests": traffic.peak,
        "peak_minute_miss_share": traffic.peak_miss_share,
    }


def write_report(night: Night, outcome: Outcome) -> None:
    """Both files, the picture last."""
    report = hotset_report(night, outcome)
    write_json(night.run.place(HOTSET_REPORT_FILE), report.model_dump(mode="json"))
    with fsspec.open(night.run.place(HOTSET_PICTURE_FILE), "wb") as file:
        chart.draw_night(report, file)


def hotset_report(night: Night, outcome: Outcome) -> said.HotSetReport:
    run, given, choice, traffic = night.run, night.given, outcome.choice, outcome.traffic
    proof = outcome.trial.proof
    return said.HotSetReport(
        model=run.model,
        version=run.version,
        generation=run.generation,
        as_of=run.as_of,
        made_at=datetime.now(UTC),
        refresh_s=given.refresh_s,
        known_entities=given.known,
        asked_entities=outcome.asked,
        log=_log(night),
        budget=said.Budget(
            bytes=night.settings.memory_budget,
            slots=choice.slots,
            precomputed_slots=choice.fixed_slots,
            slot_bytes=outcome.trial.room.slot_bytes,
            resident_generations=given.model.generations,
            max_fraction=night.settings.hot_fraction,
        ),
        chosen=_chosen(night, outcome),
        fit=_fit(outcome.trial, given.refresh_s),
        coverage=[said.Point(entities=entities, traffic=share) for entities, share in outcome.curve],
        chosen_point=said.Point(entities=_share(len(choice.entities), given.known), traffic=traffic.coverage),
        backtest=_backtest(proof, outcome.trial, given.refresh_s) if proof else None,
        why_no_backtest=outcome.trial.why_not,
        peak=None if traffic.peak_at_s is None else _peak(traffic, traffic.peak_at_s),
        yesterday=_yesterday(night, traffic),
        next_step=_next_step(outcome),
        costs=said.Costs(
            **given.model.model_dump(include={"live_ms", "batch_ms", "lookup_ms", "stale_ms"}),
            source=given.costs_from,
        ),
        saving=_saving(night, outcome),
        gate=_gate(outcome.decision),
    )


def _log(night: Night) -> said.LogRows:
    files, rows = night.files, night.rows
    return said.LogRows(
        begin=night.begin,
        first=None if rows.first_s is None else datetime.fromtimestamp(rows.first_s, UTC),
        read=files.rows + files.unknown_rows,
        counted=rows.requests,
        not_answered=rows.not_answered,
        outside=rows.outside,
        set_aside=_set_aside(night),
        files=len(files.good),
        files_set_aside=files.aside,
    )


def _set_aside(night: Night) -> dict[str, int]:
    unknown = night.files.unknown_rows
    return {**night.rows.set_aside, **({UNKNOWN_VERSION: unknown} if unknown else {})}


def _chosen(night: Night, outcome: Outcome) -> said.Chosen:
    choice, given = outcome.choice, night.given
    known = set(night.mandatory)
    unknown = [name for name in given.mandatory if name not in known]
    old = set(night.in_service.names) if night.in_service else set()
    new = sum(name not in old for name in choice.entities)
    return said.Chosen(
        entities=len(choice.entities),
        share_of_known=_share(len(choice.entities), given.known),
        bytes=choice.bytes,
        expected_requests=float(choice.expected.sum()),
        expected_share=choice.expected_share,
        mandatory=len(known),
        mandatory_unknown=len(unknown),
        mandatory_unknown_named=unknown[:_NAMED],
        blocked=len(given.blocked),
        churn=_share(new, len(choice.entities)) if night.in_service and choice.entities else None,
    )


def _fit(trial: Trial, refresh_s: float) -> said.Fit:
    days, fitted = refresh_s / DAY_S, trial.fit
    return said.Fit(
        is_fitted=trial.proof is not None,
        why_not=trial.why_not,
        half_life_days=fitted.profile.half_life * days,
        season_days=fitted.profile.period * days or None,
        written_back_share=1 - fitted.share,
        eviction=fitted.eviction.said if fitted.eviction else None,
    )


def _backtest(proof: Proof, trial: Trial, refresh_s: float) -> said.Backtest:
    found = asdict(totals(proof.windows))
    shown = {name: found[name] for name in said.Backtest.model_fields if name in found}
    return said.Backtest(
        windows=[_window(one, proof, refresh_s) for one in proof.windows],
        sample_share=trial.share,
        standard_error=proof.standard_error,
        hit_rates=proof.rates,
        **shown,
    )


def _window(one: WindowResult, proof: Proof, refresh_s: float) -> said.Window:
    rival = proof.rival_rates.get(one.begin_s)
    return said.Window(
        begin=datetime.fromtimestamp(one.begin_s, UTC),
        end=datetime.fromtimestamp(one.begin_s + refresh_s, UTC),
        requests=one.requests,
        hit_rates=one.hit_rates | ({} if rival is None else {said.YESTERDAY: rival}),
        precomputed=one.fixed,
        precomputed_hit_rate=one.precomputed_hit_rate,
        expected_requests=one.expected_requests,
        realised_requests=one.realised_requests,
        never_read_share=one.never_read_share,
        unseen_share=one.unseen_share,
        churn=one.churn,
        peak_minute_miss_rate=one.peak_minute_miss_rate,
    )


def _peak(traffic: Traffic, at_s: float) -> said.Peak:
    missed = traffic.peak - traffic.peak_hot
    return said.Peak(
        at=datetime.fromtimestamp(at_s, UTC),
        requests=traffic.peak,
        missed=missed,
        miss_share=_share(missed, traffic.peak),
    )


def _yesterday(night: Night, traffic: Traffic) -> said.Yesterday | None:
    if night.in_service is None:
        return None
    old = night.in_service
    return said.Yesterday(
        generation=old.run.generation,
        as_of=old.run.as_of,
        entities=old.table.num_rows,
        expected_requests=float(old.table["weight"].to_numpy().sum()),
        realised_requests=traffic.since_old,
        requests=traffic.since,
    )


def _next_step(outcome: Outcome) -> said.NextStep:
    choice = outcome.choice
    entities, requests = choice.next_step
    each = choice.bytes / len(choice.entities) if choice.entities else outcome.trial.room.slot_bytes
    return said.NextStep(
        entities=entities,
        bytes=round(entities * each),
        requests=requests,
        share=_share(requests, choice.total_expected),
    )


def _saving(night: Night, outcome: Outcome) -> said.Saving:
    choice, model, settings = outcome.choice, night.given.model, night.settings
    refreshes = DAY_S / night.given.refresh_s
    lookups = model.lookup_ms * choice.total_expected
    hits_ms = float(choice.expected.sum()) * model.hit_ms
    batch_ms = len(choice.entities) * model.batch_ms
    replicas = _replicas(night, outcome)
    price = settings.price_per_replica_hour
    return said.Saving(
        live_ms=hits_ms * refreshes,
        batch_ms=batch_ms * refreshes,
        lookup_ms=lookups * refreshes,
        net_ms=choice.net_ms * refreshes,
        replicas=replicas,
        money_a_day=None if price is None or replicas is None else replicas * price * 24,
        currency=None if price is None or replicas is None else settings.currency,
    )


def _replicas(night: Night, outcome: Outcome) -> int | None:
    """Fewer, for the busiest minute of the log."""
    traffic, each = outcome.traffic, night.given.rows_per_s
    if each is None:
        return None
    without, left = (replicas_needed(rows / 60, each) for rows in (traffic.peak, traffic.most_missed))
    return without - left


def _gate(decision: Decision) -> said.Verdict:
    duel = decision.duel
    return said.Verdict(
        used=decision.used,
        reason=decision.reason,
        windows=duel.windows if duel else 0,
        choice_hit_rate=duel.choice if duel else None,
        yesterday_hit_rate=duel.rival if duel else None,
        noise=duel.noise if duel else None,
    )


def _share(part: float, whole: float) -> float:
    return min(1.0, part / whole) if whole else 0.0
