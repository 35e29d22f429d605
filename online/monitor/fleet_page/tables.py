"""The Fleet page's tables; each row says how it was computed and from when. Pure."""

from collections.abc import Sequence

from online.monitor import text
from online.monitor.fleet import FleetEstimate, PeakMinute
from online.monitor.fleet_page.costs import HOURS_PER_DAY, Balance, Line, NightlyJob, RedisMemory
from online.monitor.fleet_page.figures import Step
from online.monitor.fleet_page.sizing import Sizing
from online.monitor.settings import MonitorSettings
from online.monitor.state import LiveState
from online.monitor.tables import Cell, Column, Kind, Table
from online.monitor.windows import Window, utc
from online.planning.prices import HOURS_PER_MONTH
from schemas.capacity import SizedFleet

_FIGURE = (Column("figure", "Figure"), Column("value", "Value"), Column("how", "How it was computed"))
_BOTH = (
    Column("figure", "Figure"),
    Column("without", "Without precomputing"),
    Column("with", "With it"),
    Column("how", "How it was computed"),
)
NO_REQUESTS = "No requests yet in this time range."


def fleet_table(found: Sizing, hit_rate: float | None, settings: MonitorSettings) -> Table:
    """Both fleets, figure by figure from the log to the count."""
    note = (
        "From the busiest minute, never from the mean hit rate. The mean over 60 s: a burst within the minute is"
        " not seen. Without precomputing every request would be live; written-back results would still save some,"
        " which is not counted. Clients refused with 4xx need no replica, failed answers (5xx) would have."
    )
    rows = _peak_rows(found.all_peak, found.tail_peak)
    if found.estimate is not None:
        rows += _sized_rows(found.estimate, hit_rate)
        rows += _money_rows(found.estimate, settings)
    return Table("fleet", "Replicas for the busiest minute", _BOTH, rows, found.problem or NO_REQUESTS, note)


def device_table(found: Sizing, state: LiveState, settings: MonitorSettings) -> Table:
    rows: list[list[Cell]] = []
    if (estimate := found.estimate) is not None:
        replica, time = estimate.replica, estimate.replica.time
        at = utc(replica.reported_at_ms // 1000)
        age = text.age((state.now_ms - replica.reported_at_ms) / 1e3) if state.now_ms is not None else text.NONE
        how = "emulated" if replica.is_emulated else "measured"
        largest = estimate.largest_batch_rows
        over = "; even one row takes longer, so it counts as one row" if estimate.is_row_over_slo else ""
        rows = [
            [
                "T(b)",
                f"{time.tau0_ms:.3g} + {time.alpha_ms:.3g} b ms, b ≤ {replica.max_batch_rows}",
                f"{how} by node {replica.node} for version {replica.version}, reported {text.moment(at)} UTC,"
                f" {age} ago; the slowest of {found.up} that reported",
            ],
            [
                "A batch may take",
                f"{text.ms(estimate.max_batch_ms)} ms",
                f"half of the {settings.slo_ms:g} ms that an answer may take (MONITOR_SLO_MS): a row may wait for"
                " one batch",
            ],
            [
                "Largest batch within that",
                f"{largest} rows, {text.ms(time.batch_ms(largest))} ms",
                f"at most max_batch_rows{over}",
            ],
            [
                "One replica may be given",
                f"{text.number(estimate.rows_per_s)} rows/s",
                f"{estimate.utilisation:g} × {largest} rows / T({largest}): the rest is for bursts and for"
                " a replica that is lost",
            ],
        ]
    return Table("device", "What one replica can do", _FIGURE, rows, found.problem or NO_REQUESTS)


def balance_table(
    found: Balance | None,
    job: NightlyJob | None,
    redis: RedisMemory,
    settings: MonitorSettings,
    problem: str,
) -> Table:
    """What is saved, less what it costs. Money is empty where a price is not set; the row says which."""
    columns = (
        Column("figure", "Figure"),
        Column("replicas", "Replicas", Kind.NUMBER),
        Column("replica_hours_per_day", "Replica-hours a day", Kind.NUMBER),
        Column("money_per_month", f"{settings.currency} a month", Kind.NUMBER),
        Column("how", "How it was computed"),
    )
    rows: list[list[Cell]] = []
    if found is not None:
        rows = [
            _line("Saved by precomputing", found.saved, _how_saved(settings)),
            _line("Nightly job", _negative(found.job), _how_job(job, settings)),
            _line("Redis", _negative(found.redis), _how_redis(redis, settings)),
            _line("Left", found.left, _how_left(found, settings)),
        ]
    note = (
        f"Replica-hours are GPU-hours where a replica has one GPU. A month has {HOURS_PER_MONTH} hours. A cost is"
        " negative, and so is what is left where precomputing costs more than it saves."
    )
    return Table("balance", "What precomputing saves, and what it costs", columns, rows, problem, note)


def cold_table(found: Sizing) -> Table:
    """All traffic live: after Redis was lost, or before a first generation."""
    rows: list[list[Cell]] = []
    if (estimate := found.estimate) is not None and found.all_peak is not None:
        needed, up = estimate.all_live, found.up
        short = max(0, needed.replicas - up)
        load = found.all_peak.per_s / (up * estimate.rows_per_s / estimate.utilisation) if up else None
        rows = [
            [
                "Replicas needed",
                _replicas(needed.replicas),
                "the busiest minute of all requests, none answered by a cache",
            ],
            ["Running now", _replicas(up), "nodes that have announced the stable version's T(b)"],
            [
                "Short of",
                _replicas(short),
                "needed less running; raise the number before a cold start, or the tail is refused (503)",
            ],
            [
                "Load on those running",
                text.share(load),
                f"busiest minute / ({up} × {estimate.largest_batch_rows} rows / T); over 100 % they refuse",
            ],
        ]
    return Table("cold", "If the cache is cold", _FIGURE, rows, found.problem or NO_REQUESTS)


def over_time(steps: Sequence[Step], window: Window) -> Table:
    columns = (
        Column("from", "From (UTC)", Kind.TIME),
        Column("all_per_s", "All requests/s", Kind.NUMBER),
        Column("tail_per_s", "Tail requests/s", Kind.NUMBER),
        Column("without", "Replicas without", Kind.COUNT),
        Column("with", "Replicas with", Kind.COUNT),
    )
    rows: list[list[Cell]] = [
        [window.step_start(number), one.all_per_s, one.tail_per_s, one.without, one.with_precomputing]
        for number, one in enumerate(steps)
    ]
    is_empty = not any(one.all_per_s for one in steps)
    note = "Of each step the busiest minute of all requests and that of the tail, and the replicas for these."
    return Table("over_time", "Busiest minutes over time", columns, [] if is_empty else rows, NO_REQUESTS, note)


def _peak_rows(every: PeakMinute | None, tail: PeakMinute | None) -> list[list[Cell]]:
    if every is None:
        return []
    tail = tail or PeakMinute(every.minute, 0)
    how = "with it: all not answered by a precomputed or cached result"
    return [
        ["Busiest minute", _rate(every), _rate(tail), f"requests of the minute / 60; {how}"],
        ["Which began", _when(every), _when(tail), "UTC, by the time of the answers in the log"],
        ["With so many requests", text.count(every.requests), text.count(tail.requests), "rows of the log"],
    ]


def _sized_rows(estimate: FleetEstimate, hit_rate: float | None) -> list[list[Cell]]:
    every, tail = estimate.all_live, estimate.tail
    rows: list[list[Cell]] = [
        [
            "Load",
            f"{every.load:.2f}",
            f"{tail.load:.2f}",
            f"busiest minute / {text.number(estimate.rows_per_s)} rows/s of one replica",
        ],
        ["Replicas needed", str(every.replicas), str(tail.replicas), "the load, rounded up"],
        [
            "Rows a batch then has",
            _batch(every),
            _batch(tail),
            "b = r T(b) for r rows/s of one replica, at least 1: what comes during a batch is the next one",
        ],
        ["Which take", f"{text.ms(every.batch_ms)} ms", f"{text.ms(tail.batch_ms)} ms", "T(b)"],
        [
            "Device time of a row",
            f"{text.ms(every.row_ms)} ms",
            f"{text.ms(tail.row_ms)} ms",
            "T(b) / b: the smaller the batch, the dearer its rows",
        ],
    ]
    if hit_rate is not None:
        naive = -int(-(every.load * (1 - hit_rate)) // 1)
        how = f"not used: load × (1 − {text.share(hit_rate)}), which misses the minutes when the tail peaks"
        rows.append(["By the mean hit rate", str(every.replicas), str(naive), how])
    return rows


def _money_rows(estimate: FleetEstimate, settings: MonitorSettings) -> list[list[Cell]]:
    hours = [count * HOURS_PER_DAY for count in (estimate.without, estimate.with_precomputing)]
    rows: list[list[Cell]] = [
        ["Replica-hours a day", *(text.count(one) for one in hours), f"replicas × {HOURS_PER_DAY} h"]
    ]
    price = settings.price_per_replica_hour
    if price is not None:
        money = [f"{one / HOURS_PER_DAY * HOURS_PER_MONTH * price:,.2f}" for one in hours]
        how = f"replicas × {HOURS_PER_MONTH} h × {price:g} (MONITOR_PRICE_PER_REPLICA_HOUR)"
        rows.append([f"{settings.currency} a month", *money, how])
    return rows


def _how_saved(settings: MonitorSettings) -> str:
    price = settings.price_per_replica_hour
    money = (
        f"{price:g} {settings.currency} a replica-hour"
        if price is not None
        else "no money: set MONITOR_PRICE_PER_REPLICA_HOUR"
    )
    return f"replicas without less replicas with, {HOURS_PER_DAY} h a day; {money}"


def _how_job(job: NightlyJob | None, settings: MonitorSettings) -> str:
    if job is None:
        return "no finished run in the run folders: nothing subtracted"
    runs = (
        f"{job.hours_per_day:.3g} h a day: {job.runs} run{'' if job.runs == 1 else 's'} on {job.days} UTC"
        f" day{'' if job.days == 1 else 's'} of the week up to {job.newest}, which took {job.newest_hours:.3g} h,"
        f" {job.scoring_hours:.3g} h of it until scored (ended {text.moment(job.newest_end)} UTC, by its reports)"
    )
    if settings.price_per_batch_hour is None:
        money = "; no money: set MONITOR_PRICE_PER_BATCH_HOUR"
    else:
        money = f"; {settings.price_per_batch_hour:g} {settings.currency} an hour"
    if settings.price_per_batch_hour is None or settings.price_per_replica_hour is None:
        return f"{runs}; an hour counts {settings.batch_replicas:g} × a replica's (MONITOR_BATCH_REPLICAS){money}"
    return f"{runs}{money}, in replica-hours by the ratio of the two prices"


def _how_redis(redis: RedisMemory, settings: MonitorSettings) -> str:
    if redis.is_given:
        memory = f"{redis.gb:.3g} GB (MONITOR_REDIS_GB)"
    else:
        plural = "" if len(redis.generations) == 1 else "s"
        names = f" ({', '.join(redis.generations)})" if redis.generations else ""
        memory = f"{redis.gb:.3g} GB for {len(redis.generations)} routed generation{plural}{names}, as publishing"
        memory += " reckoned"
        if redis.unknown:
            memory += f"; of {redis.unknown} more it is not known"
    price = settings.price_per_redis_gb_month
    if price is None:
        return f"{memory}; not subtracted: set MONITOR_PRICE_PER_REDIS_GB_MONTH"
    ratio = "" if settings.price_per_replica_hour else "; in replica-hours only with a replica's price"
    return f"{memory} × {price:g} {settings.currency} a GB and month{ratio}"


def _how_left(found: Balance, settings: MonitorSettings) -> str:
    loss = "precomputing costs more than it saves" if found.is_loss else "saved less both costs"
    missing = [
        name
        for name, price in (
            ("MONITOR_PRICE_PER_REPLICA_HOUR", settings.price_per_replica_hour),
            ("MONITOR_PRICE_PER_BATCH_HOUR", settings.price_per_batch_hour),
            ("MONITOR_PRICE_PER_REDIS_GB_MONTH", settings.price_per_redis_gb_month),
        )
        if price is None
    ]
    return f"{loss}; for money set {', '.join(missing)}" if missing else loss


def _line(figure: str, line: Line, how: str) -> list[Cell]:
    return [figure, line.replicas, line.replica_hours_per_day, line.money_per_month, how]


def _negative(line: Line) -> Line:
    hours, money = line.replica_hours_per_day, line.money_per_month
    # Not -0.0, which would be written with its sign.
    return Line(hours and -hours, money and -money)


def _rate(peak: PeakMinute) -> str:
    return f"{text.number(peak.per_s)} requests/s"


def _when(peak: PeakMinute) -> str:
    return text.moment(utc(peak.minute * 60)) if peak.requests else text.NONE


def _batch(fleet: SizedFleet) -> str:
    return text.number(fleet.batch_rows) if fleet.replicas else text.NONE


def _replicas(number: int) -> str:
    return f"{number} replica{'' if number == 1 else 's'}"
