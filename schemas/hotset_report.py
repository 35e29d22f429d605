"""The report of a night's choice, `hotset-report.json` in the run's folder: written by `select`, read by the site.

Shares and rates are 0 to 1, of what their names say; times are UTC. What is not known is null, and why is said.
"""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat

Share = Annotated[float, Field(ge=0, le=1)]
# What can be compared; a night need not have all of them.
CHOICE, YESTERDAY = "choice", "yesterday"
BASELINES = ("lru", "lfu", "wtinylfu", "last_window")


class _Part(BaseModel):
    # Of a report with fields that came later, the others are read.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Used(StrEnum):
    CHOICE = "choice"
    YESTERDAY = "yesterday"
    DECLINED = "declined"


class LogRows(_Part):
    """What was read of the request log.

    Attributes:
        begin: of the history that was looked at; it ends at the report's `as_of`.
        first: of the oldest request that was counted; None without any.
        read: rows of all files that could be read, and of those of an unknown schema version.
        counted: requests that the choice goes by.
        not_answered: rows of refused or failed requests, or of no entity: no hit could have answered them.
        outside: rows before `begin` or from `as_of` on.
        set_aside: faulty rows by reason: no time, an entity that cannot be, late (more than an hour), duplicated,
            of an unknown schema version.
        files, files_set_aside: `files_set_aside` gives a reason for each.
    """

    begin: AwareDatetime
    first: AwareDatetime | None
    read: NonNegativeInt
    counted: NonNegativeInt
    not_answered: NonNegativeInt
    outside: NonNegativeInt
    set_aside: dict[str, NonNegativeInt]
    files: NonNegativeInt
    files_set_aside: dict[str, str]


class Budget(_Part):
    """What there is room for.

    Attributes:
        bytes: of Redis's memory for all resident generations and written-back results; None where none was set,
            and `max_fraction` of the known entities was the limit.
        slots: entities that it holds, precomputed or written back; `precomputed_slots` are for precomputed ones.
        slot_bytes: what one takes.
    """

    bytes: NonNegativeInt | None
    slots: NonNegativeInt
    precomputed_slots: NonNegativeInt
    slot_bytes: NonNegativeFloat
    resident_generations: int = Field(ge=1)
    max_fraction: Share


class Chosen(_Part):
    """The set that was written, whoever chose it (see `Gate`).

    Attributes:
        bytes: what it takes in all resident generations.
        expected_requests: before the next refresh; `expected_share` of all that are expected then.
        mandatory, blocked: of the lists; `mandatory_unknown` have no features and could not be taken, some are
            named.
        churn: share of the set that is not in yesterday's; None without one.
    """

    entities: NonNegativeInt
    share_of_known: Share
    bytes: NonNegativeInt
    expected_requests: NonNegativeFloat
    expected_share: Share
    mandatory: NonNegativeInt
    mandatory_unknown: NonNegativeInt
    mandatory_unknown_named: list[str]
    blocked: NonNegativeInt
    churn: Share | None


class Fit(_Part):
    """What was fitted on the past, or taken where the past is too short.

    Attributes:
        is_fitted: on the windows of the log; else `why_not` says why the defaults were taken.
        season_days: requests of the same day of it count more; None is no season.
        written_back_share: of the slots, left for written-back results.
        eviction: what Redis is best told, such as `volatile-lfu, lfu-decay-time 60`; None where not fitted.
    """

    is_fitted: bool
    why_not: str | None
    half_life_days: PositiveFloat
    season_days: PositiveFloat | None
    written_back_share: Share
    eviction: str | None


class Point(_Part):
    """The `entities` most asked for hold `traffic`: shares of the known entities and of the requests."""

    entities: Share
    traffic: Share


class Window(_Part):
    """One window between refreshes, which the choice for it did not know.

    Attributes:
        hit_rates: of `choice` (precomputed and written back together), of `BASELINES` with as many slots, and of
            `yesterday` in windows after that set was chosen.
        precomputed: entities of the choice; `precomputed_hit_rate` is what they alone answered.
        expected_requests, realised_requests: of the precomputed, before and after.
        never_read_share: of the precomputed; None where nothing was.
        unseen_share: of the requests, for entities not in the past.
        churn: share of the precomputed that were not in the window before; None where nothing was.
        peak_minute_miss_rate: in the minute with the most misses.
    """

    begin: AwareDatetime
    end: AwareDatetime
    requests: NonNegativeInt
    hit_rates: dict[str, Share]
    precomputed: NonNegativeInt
    precomputed_hit_rate: Share
    expected_requests: NonNegativeFloat
    realised_requests: NonNegativeInt
    never_read_share: Share | None
    unseen_share: Share
    churn: Share | None
    peak_minute_miss_rate: Share | None


class Backtest(_Part):
    """The choice tried on the past, oldest window first, and all windows together.

    Attributes:
        sample_share: of the entities that were simulated; counts of requests and entities are of the sample.
        standard_error: of the choice's hit rate; 0 where all entities were simulated.
        hit_rates: over all windows; without `yesterday`, which is in some only.
    """

    windows: list[Window]
    sample_share: Share
    standard_error: NonNegativeFloat
    hit_rates: dict[str, Share]
    precomputed_hit_rate: Share
    never_read_share: Share | None
    unseen_share: Share
    churn: Share | None
    peak_minute_miss_rate: Share | None


class Peak(_Part):
    """The minute of the log with the most requests, and how many of them the written set has no answer for."""

    at: AwareDatetime
    requests: NonNegativeInt
    missed: NonNegativeInt
    miss_share: Share


class Yesterday(_Part):
    """The set of the generation in service when this one was chosen.

    Attributes:
        expected_requests: when it was chosen, before its next refresh.
        realised_requests: since its `as_of`; `requests` of everybody since then.
    """

    generation: str
    as_of: AwareDatetime
    entities: NonNegativeInt
    expected_requests: NonNegativeFloat
    realised_requests: NonNegativeInt
    requests: NonNegativeInt


class NextStep(_Part):
    """What a tenth more precomputed entities would bring: `requests` before the next refresh, and their share."""

    entities: NonNegativeInt
    bytes: NonNegativeInt
    requests: NonNegativeFloat
    share: Share


class Costs(_Part):
    """What a row costs in ms. `source` says where they are from."""

    live_ms: PositiveFloat
    batch_ms: NonNegativeFloat
    lookup_ms: NonNegativeFloat
    stale_ms: NonNegativeFloat
    source: str


class Saving(_Part):
    """What the precomputed set is expected to save a day.

    Attributes:
        live_ms: of the live tier's devices; `batch_ms` of the night's and `lookup_ms` of every request's look-up
            are taken off in `net_ms`, which may be below 0.
        replicas: fewer in the busiest minute, by the profile; None without one.
        money_a_day: for these replicas, in `currency`; None without a price.
    """

    live_ms: NonNegativeFloat
    batch_ms: NonNegativeFloat
    lookup_ms: NonNegativeFloat
    net_ms: float
    replicas: NonNegativeFloat | None
    money_a_day: NonNegativeFloat | None
    currency: str | None


class Verdict(_Part):
    """Which set was written, and why in words.

    Attributes:
        windows: that the choice and yesterday's set were compared in: those that begin no earlier than that set's
            `as_of`, so that neither knew them. The hit rates are over them; None where there were none.
        noise: by which the choice must be worse to be replaced.
    """

    used: Used
    reason: str
    windows: NonNegativeInt
    choice_hit_rate: Share | None
    yesterday_hit_rate: Share | None
    noise: NonNegativeFloat | None


class HotSetReport(_Part):
    """One night's.

    Attributes:
        refresh_s: between nights: what expectations and windows are of.
        coverage: from (0, 0) on, over the history that was counted; `chosen_point` is where the written set lies,
            on the curve or below it.
        backtest: None where the log is too short for one; `why_no_backtest` says so.
        peak: None where no request was counted.
        yesterday: None where no generation is in service, or its files are gone.
    """

    format: Literal[1] = 1
    model: str
    version: str
    generation: str
    as_of: AwareDatetime
    made_at: AwareDatetime
    refresh_s: PositiveFloat
    known_entities: NonNegativeInt
    asked_entities: NonNegativeInt
    log: LogRows
    budget: Budget
    chosen: Chosen
    fit: Fit
    coverage: list[Point]
    chosen_point: Point
    backtest: Backtest | None
    why_no_backtest: str | None
    peak: Peak | None
    yesterday: Yesterday | None
    next_step: NextStep
    costs: Costs
    saving: Saving
    gate: Verdict

    @classmethod
    def read(cls, raw: bytes) -> Self:
        """Raises ValueError where it is no report of this format."""
        return cls.model_validate_json(raw)
