"""The Overview's generation in service and fleet estimate, each with the words that say how it was found. Pure."""

from dataclasses import dataclass

from online.monitor import fleet, text
from online.monitor.overview.figures import Figures
from online.monitor.settings import MonitorSettings
from online.monitor.state import LiveState
from online.monitor.tables import Cell, Column, Table
from online.monitor.windows import utc
from schemas.routes import Generation

_FIGURE = (Column("figure", "Figure"), Column("value", "Value"), Column("how", "How it was computed"))


@dataclass(frozen=True, slots=True)
class InService:
    """What answers now. `problem` says in words why something is absent."""

    version: str | None = None
    generation: Generation | None = None
    age_s: float | None = None
    problem: str | None = None


def in_service(state: LiveState) -> InService:
    if state.problem is not None:
        return InService(problem=f"{state.problem}.")
    if state.routes is None or state.now_ms is None:
        return InService(problem="Nothing is routed yet: no night has been activated for this model.")
    generation = state.routes.live_generation(state.routes.stable)
    if generation is None:
        return InService(
            state.routes.stable, problem="The stable version has no generation: all is answered live."
        )
    age_s = (state.now_ms - generation.computed_at_ms) / 1e3
    return InService(state.routes.stable, generation, age_s)


def generation_table(found: InService, state: LiveState) -> Table:
    rows: list[list[Cell]] = []
    if state.routes is not None:
        source = f"routes document, epoch {state.routes.epoch}, revision {state.routes.revision}"
        rows.append(["Stable version", found.version, source])
        rows.append(["Changed", _moment(state.routes.changed_at_ms), "when the routes document was last written"])
    if found.generation is not None:
        generation = found.generation
        rows += [
            ["Generation", generation.id, "the newest of the stable version"],
            [
                "Rows",
                text.count(generation.rows),
                f"entities in Redis, in {text.count(generation.buckets)} buckets",
            ],
            ["Computed", _moment(generation.computed_at_ms), "Redis's clock at the start of the run"],
            ["Age", text.age(found.age_s), "Redis's clock now, less that"],
        ]
    empty = found.problem or ""
    return Table("generation", "Generation in service", _FIGURE, rows, empty, "Read from Redis.")


@dataclass(frozen=True, slots=True)
class Fleet:
    """The estimate, or in `problem` what is missing for one."""

    estimate: fleet.FleetEstimate | None
    all_peak: fleet.PeakMinute | None
    tail_peak: fleet.PeakMinute | None
    candidates: int
    problem: str | None = None


def estimate_fleet(figures: Figures, state: LiveState, settings: MonitorSettings) -> Fleet:
    """Sized by the slowest replica of the stable version, so that the estimate holds for the others too."""
    stable = state.routes.stable if state.routes else None
    replicas = [replica for replica in state.replicas if stable is None or replica.version == stable]
    chosen = fleet.slowest(replicas, settings.slo_ms)
    peaks = figures.all_peak, figures.tail_peak
    if chosen is None:
        return Fleet(None, *peaks, 0, problem=_no_replica(state, stable))
    if figures.all_peak is None:
        return Fleet(None, *peaks, len(replicas), problem="No requests yet in this time range to size a fleet by.")
    tail = figures.tail_peak or fleet.PeakMinute(figures.all_peak.minute, 0)
    return Fleet(fleet.estimate(chosen, figures.all_peak, tail, settings.slo_ms), *peaks, len(replicas))


def fleet_table(found: Fleet, state: LiveState, settings: MonitorSettings) -> Table:
    rows: list[list[Cell]] = []
    if found.all_peak is not None:
        rows.append(_peak_row("Busiest minute, all", found.all_peak, "requests but those refused with 4xx"))
        tail = found.tail_peak or fleet.PeakMinute(found.all_peak.minute, 0)
        how = (
            "of those, all not answered by a precomputed or cached result; 5xx errors count, they needed a replica"
        )
        rows.append(_peak_row("Busiest minute, tail", tail, how))
    if found.estimate is not None:
        rows += _estimate_rows(found, found.estimate, state, settings)
    note = (
        "From the busiest minute, never from the mean hit rate. The mean over 60 s: a burst within the minute is "
        "not seen. Without precomputing, written-back results would still save some requests; that is not counted."
    )
    return Table("fleet", "Fleet estimate", _FIGURE, rows, found.problem or "", note)


def _estimate_rows(
    found: Fleet, estimate: fleet.FleetEstimate, state: LiveState, settings: MonitorSettings
) -> list[list[Cell]]:
    replica, time = estimate.replica, estimate.replica.time
    reported = text.age((state.now_ms - replica.reported_at_ms) / 1e3) if state.now_ms is not None else text.NONE
    batch = estimate.largest_batch_rows
    who = (
        f"{'emulated' if replica.is_emulated else 'measured'} by node {replica.node} for version {replica.version}"
    )
    over = "; even one row takes longer, so it counts as one row" if estimate.is_row_over_slo else ""
    per_s = text.number(estimate.rows_per_s)
    rows: list[list[Cell]] = [
        [
            "T(b)",
            f"{time.tau0_ms:.3g} + {time.alpha_ms:.3g} b ms, b ≤ {replica.max_batch_rows}",
            f"{who}, reported {reported} ago; the slowest of {found.candidates} that reported",
        ],
        [
            "A batch may take",
            f"{text.ms(estimate.max_batch_ms)} ms",
            f"half of the {settings.slo_ms:g} ms an answer may take: a row may wait for one batch",
        ],
        [
            "Largest batch within that",
            f"{batch} rows, {text.ms(time.batch_ms(batch))} ms",
            f"at most max_batch_rows{over}",
        ],
        ["One replica", f"{per_s} rows/s", f"{estimate.utilisation:g} × {batch} rows / T({batch})"],
        ["Without precomputing", _replicas(estimate.without), _load(estimate.load_without, "all", per_s)],
        ["With precomputing", _replicas(estimate.with_precomputing), _load(estimate.load_with, "the tail", per_s)],
        [
            "Saved",
            _replicas(estimate.saved),
            f"{text.count(estimate.saved_replica_hours_per_day)} replica-hours a day",
        ],
    ]
    if settings.price_per_replica_hour is not None:
        price = settings.price_per_replica_hour
        saved = f"{estimate.saved_replica_hours_per_day * price:,.2f} {settings.currency} a day"
        how = f"at {price:g} {settings.currency} a replica-hour; the batch job and Redis not subtracted"
        rows.append(["Saved money", saved, how])
    return rows


def _no_replica(state: LiveState, stable: str | None) -> str:
    if state.now_ms is None:
        return f"{state.problem}: the replicas' T(b) is not known."
    of_version = f" for version {stable}" if stable is not None else ""
    bad = f" {state.unreadable} of {state.nodes} entries could not be read." if state.unreadable else ""
    return f"No replica has reported a T(b){of_version} yet.{bad}"


def _peak_row(figure: str, peak: fleet.PeakMinute, how: str) -> list[Cell]:
    when = text.moment(utc(peak.minute * 60))
    return [
        figure,
        f"{text.number(peak.per_s)} requests/s",
        f"{text.count(peak.requests)} in the minute of {when}: {how}",
    ]


def _load(load: float, of: str, per_s: str) -> str:
    return f"busiest minute of {of} / {per_s} = {load:.2f}, rounded up"


def _replicas(number: int) -> str:
    return f"{number} replica{'' if number == 1 else 's'}"


def _moment(at_ms: int) -> str:
    return f"{text.moment(utc(at_ms // 1000))} UTC"
