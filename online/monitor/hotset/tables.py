"""The Hot set page's tables. Pure."""

from collections.abc import Mapping, Sequence

from online.monitor import text
from online.monitor.hotset.nights import Realised, Reports
from online.monitor.tables import Cell, Column, Kind, Table
from schemas.hotset_report import BASELINES, CHOICE, YESTERDAY, HotSetReport, Used

NO_REPORT = "No night has chosen a hot set yet."
NO_BACKTEST = "The log is too short to try the choice on: it is tried once there are windows enough."
COMPARED = (CHOICE, *BASELINES, YESTERDAY)
LABELS: Mapping[str, str] = {
    CHOICE: "Choice",
    "lru": "LRU",
    "lfu": "LFU",
    "wtinylfu": "W-TinyLFU",
    "last_window": "Last window's top",
    YESTERDAY: "Yesterday's set",
}
VERDICTS: Mapping[Used, str] = {
    Used.CHOICE: "new choice",
    Used.YESTERDAY: "yesterday's set kept",
    Used.DECLINED: "nothing precomputed",
}


def nights_table(reports: Reports) -> Table:
    """One row a night, newest first."""
    columns = [
        Column("generation", "Night"),
        Column("version", "Version"),
        Column("used", "Gate"),
        Column("chosen", "Chosen", Kind.COUNT),
        Column("share_of_known", "Of known", Kind.SHARE),
        Column("expected_share", "Expected of traffic", Kind.SHARE),
        Column("hit_rate", "Hit rate, backtest", Kind.SHARE),
        Column("never_read_share", "Never read", Kind.SHARE),
        Column("churn", "Churn", Kind.SHARE),
        Column("choice_hit_rate", "Gate: choice", Kind.SHARE),
        Column("yesterday_hit_rate", "Gate: yesterday", Kind.SHARE),
        Column("reason", "Why"),
    ]
    note = (
        "From the run folders. Hit rate and never read: of all windows of the backtest, none fitted on what it is "
        "tried on; with written-back results. Churn: share of the set not in yesterday's. Gate: hit rates of the "
        "choice and of yesterday's set where neither knew the requests."
    )
    return Table("nights", "The last nights", columns, [_night(one) for one in reports.nights], NO_REPORT, note)


def realised_table(reports: Reports, found: Mapping[str, Realised | None]) -> Table:
    """Expected against what the log says since, oldest first."""
    columns = [
        Column("generation", "Generation"),
        Column("live_since", "Live since (UTC)", Kind.TIME),
        Column("hours", "Hours counted", Kind.NUMBER),
        Column("answers", "Answers", Kind.COUNT),
        Column("precomputed", "Precomputed", Kind.COUNT),
        Column("expected_share", "Expected", Kind.SHARE),
        Column("realised_share", "Realised", Kind.SHARE),
        Column("hit_share", "With caches", Kind.SHARE),
    ]
    rows: list[Sequence[Cell]] = []
    for night in reversed(reports.nights):
        one = found.get(night.generation)
        seen: list[Cell] = (
            [None] * 4 if one is None else [one.since, one.seconds / 3600, one.answers, one.precomputed]
        )
        shares: list[Cell] = [None, None] if one is None else [one.precomputed_share, one.hit_share]
        rows.append([night.generation, *seen, night.chosen.expected_share, *shares])
    note = (
        "Expected: the share of requests that the night expected its set to answer. Realised: precomputed answers "
        "over all of the log, while that generation was live; errors are left out. Empty where it never was, or "
        "longer ago than the log is kept. Answers from patches of a generation count as its own."
    )
    return Table("realised", "Expected and realised", columns, rows, NO_REPORT, note)


def windows_table(newest: HotSetReport | None) -> Table:
    """The backtest of the newest night, oldest window first."""
    columns = [
        Column("begin", "From (UTC)", Kind.TIME),
        Column("requests", "All", Kind.COUNT),
        *(Column(name, LABELS[name], Kind.SHARE) for name in COMPARED),
        Column("precomputed_hit_rate", "Precomputed alone", Kind.SHARE),
        Column("expected_requests", "Expected", Kind.COUNT),
        Column("realised_requests", "Realised", Kind.COUNT),
        Column("never_read_share", "Never read", Kind.SHARE),
        Column("unseen_share", "Unseen before", Kind.SHARE),
        Column("churn", "Churn", Kind.SHARE),
        Column("peak_minute_miss_rate", "Worst minute misses", Kind.SHARE),
    ]
    backtest = newest.backtest if newest else None
    rows: list[Sequence[Cell]] = [
        [
            one.begin,
            one.requests,
            *(one.hit_rates.get(name) for name in COMPARED),
            one.precomputed_hit_rate,
            one.expected_requests,
            one.realised_requests,
            one.never_read_share,
            one.unseen_share,
            one.churn,
            one.peak_minute_miss_rate,
        ]
        for one in (backtest.windows if backtest else [])
    ]
    note = (
        "Each window was chosen for from its past alone. Caches and sets have as many slots as the choice. "
        "Expected and realised: requests of the precomputed entities."
    )
    if backtest and backtest.sample_share < 1:
        note += (
            f" Simulated on {text.share(backtest.sample_share)} of the entities, and counts are of these: the hit "
            f"rate is off by {text.share(2 * backtest.standard_error)} at most in 19 cases of 20."
        )
    return Table("windows", "Hit rate by window", columns, rows, _why_no_backtest(newest), note)


def coverage_table(points: Sequence[tuple[float, float, float]]) -> Table:
    """Args: points (share of known entities, entities, share of traffic)."""
    columns = [
        Column("entities", "of the entities", Kind.SHARE),
        Column("count", "Entities", Kind.COUNT),
        Column("traffic", "Of the requests", Kind.SHARE),
    ]
    note = (
        "The entities asked for most, from the left, and the share of the counted requests that they hold; "
        "straight between the report's points. A set lies below it as far as the future differs from the past."
    )
    return Table("coverage", "Coverage", columns, points, NO_REPORT, note)


def _night(one: HotSetReport) -> Sequence[Cell]:
    tried = one.backtest
    return [
        one.generation,
        one.version,
        VERDICTS[one.gate.used],
        one.chosen.entities,
        one.chosen.share_of_known,
        one.chosen.expected_share,
        tried.hit_rates.get(CHOICE) if tried else None,
        tried.never_read_share if tried else None,
        one.chosen.churn,
        one.gate.choice_hit_rate,
        one.gate.yesterday_hit_rate,
        one.gate.reason,
    ]


def _why_no_backtest(newest: HotSetReport | None) -> str:
    return NO_REPORT if newest is None else (newest.why_no_backtest or NO_BACKTEST)
