"""The Plan page's fields: what may stand in each, and what a query says. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from online.planning.checks import OutOfRange
from online.planning.prices import GPU_HOUR
from schemas.capacity import TARGET_UTILISATION


@dataclass(frozen=True, slots=True)
class Field:
    """One input. `low` to `high` is allowed, both included; the slider covers a part of it, by decades if
    `is_log`.

    `option` is the planner's option for the same, where there is one.
    """

    name: str
    label: str
    unit: str
    option: str
    low: float
    high: float
    slider: tuple[float, float]
    is_log: bool = True
    is_whole: bool = False
    is_optional: bool = False
    note: str = ""

    @property
    def allowed(self) -> str:
        kind = "a whole number" if self.is_whole else "a number"
        return f"{kind} from {self.low:,g} to {self.high:,.15g}{', or nothing' if self.is_optional else ''}"


@dataclass(frozen=True, slots=True)
class Given:
    """What a field holds before anybody has typed, and where that is from."""

    value: float | None
    source: str


@dataclass(frozen=True, slots=True)
class Entered:
    """Values by field, None for what is left out; the text that stands in each; refusals by field, in words."""

    values: Mapping[str, float | None]
    texts: Mapping[str, str]
    errors: Mapping[str, str] = field(default_factory=dict)
    own: frozenset[str] = frozenset()


FIELDS = (
    Field("peak_per_s", "Requests in the busiest minute", "a second", "--peak-per-s", 0.01, 1e6, (0.1, 1e5)),
    Field("p99_ms", "Latency budget, p99 of live answers", "ms", "--p99", 0.1, 600_000, (1, 2000)),
    Field("tau0_ms", "τ0: a batch, whatever its size", "ms", "--tau0", 0, 60_000, (0.05, 500)),
    Field("alpha_ms", "α: each row of it", "ms", "--alpha", 0, 60_000, (0.001, 50)),
    Field("max_batch_rows", "Largest batch", "rows", "--max-batch-rows", 1, 4096, (1, 512), is_whole=True),
    Field(
        "hit_share", "Hot set answers, share of the busiest minute", "0 to 1", "--hit-share", 0, 1, (0, 1),
        is_log=False, is_optional=True, note="1 less the busiest minute of misses over that of all",
    ),
    Field(
        "cache_share", "Caches answer, share of the rest", "0 to 1", "--cache-share", 0, 1, (0, 1),
        is_log=False, is_optional=True, note="written-back results and cached inputs",
    ),
    Field("price_per_hour", "Price of a replica", "an hour", "--price-per-hour", 0, 10_000, (0.01, 50)),
    Field(
        "mean_share", "Mean rate, share of the busiest minute's", "0 to 1", "", 1e-6, 1, (0, 1),
        is_log=False, is_optional=True, note="for the price of a million; nothing: the peak all the time",
    ),
    Field("hit_ms", "Latency of a hit", "ms", "--hit", 0, 600_000, (0.1, 100), is_optional=True),
    Field(
        "outside_ms", "A live answer outside queue and device", "ms", "--outside", 0, 600_000, (0.1, 100),
        note="the API, the look-up that missed, the network",
    ),
    Field(
        "outside_row_ms", "And for each row of its batch", "ms", "--outside-row", 0, 60_000, (0.001, 10),
        note="answers of a batch leave one after another; `plan` on the command line reads it from the log",
    ),
    Field(
        "utilisation", "Given to a replica, share of its throughput", "0 to 1", "--utilisation", 0.05, 0.95,
        (0.05, 0.95), is_log=False,
    ),
    Field(
        "weight_gb", "The model's weights", "GB", "--weight-gb", 1e-6, 1e6, (0.01, 1000), is_optional=True,
        note="with the card's memory: do they fit",
    ),
    Field("memory_gb", "A card's memory", "GB", "--memory-gb", 1e-3, 1e6, (1, 1000), is_optional=True),
    Field(
        "budget_per_month", "Budget for the replicas", "a month", "--budget", 0.01, 1e12, (10, 1e6),
        is_optional=True,
    ),
)  # fmt: skip

EXAMPLES: Mapping[str, Given] = {
    "peak_per_s": Given(100.0, "an example: there is no request in this time range"),
    "p99_ms": Given(100.0, "an example"),
    "tau0_ms": Given(6.0, "an example: BERT-base on a T4"),
    "alpha_ms": Given(1.2, "an example: BERT-base on a T4"),
    "max_batch_rows": Given(64, "an example"),
    "hit_share": Given(None, "not known: no request in this time range"),
    "cache_share": Given(None, "not known: no request in this time range"),
    "price_per_hour": Given(GPU_HOUR.value, f"an example, to be replaced: {GPU_HOUR.what}, {GPU_HOUR.dated}"),
    "mean_share": Given(None, "not known: no request in this time range"),
    "hit_ms": Given(None, "not known: no hit in this time range"),
    "outside_ms": Given(0.0, "not known: no live answer in this time range"),
    "outside_row_ms": Given(0.0, "not known"),
    "utilisation": Given(TARGET_UTILISATION, "the planner's default"),
    "weight_gb": Given(None, "not known: the bundle's program file is about as large"),
    "memory_gb": Given(None, "not known"),
    "budget_per_month": Given(None, "none"),
}


def written(value: float | None) -> str:
    """As it stands in the field, and on the command line: shortest form that reads back the same."""
    return "" if value is None else f"{value:.12g}"


def enter(query: Mapping[str, str], before: Mapping[str, Given]) -> Entered:
    """What the query says, and for fields that it does not name what is there `before`."""
    values: dict[str, float | None] = {}
    texts, errors, own = {}, {}, set()
    for one in FIELDS:
        given = before[one.name].value
        text = query.get(one.name, written(given)).strip()
        if not text and not one.is_optional:
            text = written(given)
        texts[one.name] = text
        try:
            values[one.name] = read(one, text)
        except OutOfRange as error:
            values[one.name], errors[one.name] = None, str(error)
        if text != written(given):
            own.add(one.name)
    return Entered(values, texts, errors, frozenset(own))


def read(one: Field, text: str) -> float | None:
    """Raises OutOfRange, which names the field and what is allowed in it."""
    if not text and one.is_optional:
        return None
    try:
        value = float(text)
    except ValueError:
        raise OutOfRange(one.name, repr(text[:40]), one.allowed) from None
    if not one.low <= value <= one.high or (one.is_whole and value != int(value)):
        raise OutOfRange(one.name, text[:40], one.allowed)
    return value
