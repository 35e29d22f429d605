"""The logs that the benchmark runs over: shared data where it is there, the demo's flights, and generated ones."""

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from batch_scoring.hotset.trace import DAY_S, Trace
from infra.demo import source
from infra.demo.lookups import lookups_of
from infra.demo.source import replayed_day

_DRAWN = 300_000  # requests of a trace that has rates only, and of a generated one
_GENERATED_DAYS = 14
_FLIGHT_DAYS = 35
# One look-up in so many of the flights': 137,000 a day.
_FLIGHT_THINNED = 16
_TODAY = date(2026, 11, 29)


@dataclass(frozen=True)
class Named:
    """`known`: entities that there are, where the log names but a part of them."""

    name: str
    read: Callable[[], Trace]
    known: int | None = None


def traces(shared: Path, is_quick: bool, seed: int) -> Iterator[Named]:
    """In order; those of `shared` only where that folder is there."""
    days = 45 if is_quick else 400
    if shared.is_dir():
        yield Named("online_retail", partial(online_retail, shared, days))
        yield Named("web12", partial(web12, shared))
        yield Named("servegen_mid", partial(servegen_mid, shared, _drawn(is_quick), seed))
    yield Named("flights", partial(flights, _FLIGHT_THINNED * (4 if is_quick else 1), seed), all_flights())
    for exponent in (0.8, 1.1, 1.5):
        yield Named(f"zipf_{exponent}", partial(zipf, exponent, _drawn(is_quick), seed))
    yield Named("adversarial", partial(adversarial, _drawn(is_quick) // 3))


def _drawn(is_quick: bool) -> int:
    return _DRAWN // 5 if is_quick else _DRAWN


def online_retail(shared: Path, days: int) -> Trace:
    """Invoice lines; the last `days` days."""
    table = pq.read_table(shared / "online_retail.parquet", columns=["StockCode", "InvoiceDate"])
    times_s = table["InvoiceDate"].cast(pa.int64()).to_numpy() / 1e3
    is_kept = times_s >= times_s.max() - days * DAY_S
    return _coded(table["StockCode"].cast(pa.string()).filter(pa.array(is_kept)), times_s[is_kept])


def web12(shared: Path) -> Trace:
    """Requests in order, without times."""
    keys = np.frombuffer(gzip.decompress((shared / "web12.int32be.gz").read_bytes()), ">i4").astype(np.int64)
    return _coded(pa.chunked_array([pa.array(keys).cast(pa.string())]), None)


def servegen_mid(shared: Path, requests: int, seed: int) -> Trace:
    """Poisson requests at the rates of 10 minutes each, all scaled alike to about so many requests."""
    table = pq.read_table(shared / "servegen_mid_client_rates.parquet")
    rates, random = table["rate"].to_numpy().astype(np.float64), np.random.default_rng(seed)
    counts = random.poisson(rates * (requests / rates.sum()))
    times_s = np.repeat(table["t"].to_numpy(), counts) + random.random(counts.sum()) * 600
    clients = pa.array(np.repeat(table["client"].to_numpy(), counts)).cast(pa.string())
    return _coded(pa.chunked_array([clients]), times_s)


def flights(thinned: int, seed: int) -> Trace:
    """One look-up for each seat flown, over weeks around Thanksgiving; one in `thinned`."""
    last = _TODAY + (date(2013, 12, 1) - replayed_day(_TODAY))
    days = [lookups_of(last - timedelta(days=back), _TODAY, seed + back) for back in range(_FLIGHT_DAYS)]
    parts = [day.thinned(thinned) for day in reversed(days)]
    times_s = np.concatenate([part.times.astype("datetime64[us]").astype(np.int64) for part in parts]) / 1e6
    # Days begin at 02:00 UTC, when the night is computed.
    return _coded(pa.chunked_array([pa.array(np.concatenate([part.entities for part in parts]))]), times_s - 7200)


def all_flights() -> int:
    """How many the demo's features know: of the whole year."""
    return int(source.flights()["entity"].nunique())


def zipf(exponent: float, requests: int, seed: int, entities: int = 20_000) -> Trace:
    """Ranks by Zipf's law; each day one entity in fifty changes places with another, whatever its rank."""
    random = np.random.default_rng(seed)
    weights = np.arange(1, entities + 1, dtype=np.float64) ** -exponent
    ranks = random.choice(entities, requests, p=weights / weights.sum())
    times_s = np.sort(random.random(requests)) * _GENERATED_DAYS * DAY_S
    by_rank = random.permutation(entities)
    codes = np.empty(requests, np.int64)
    for day in range(_GENERATED_DAYS):
        span = slice(*np.searchsorted(times_s, [day * DAY_S, (day + 1) * DAY_S]))
        codes[span] = by_rank[ranks[span]]
        moved = random.choice(entities, entities // 50, replace=False)
        by_rank[moved] = by_rank[random.permutation(moved)]
    return Trace.of(codes, [f"e{number:05d}" for number in range(entities)], times_s)


def adversarial(entities: int) -> Trace:
    """Every entity is asked for three times within a minute or so, and never again."""
    codes = np.repeat(np.arange(entities), 3)
    times_s = np.arange(len(codes)) * (_GENERATED_DAYS * DAY_S / len(codes))
    return Trace.of(codes, [f"once-{number}" for number in range(entities)], times_s)


def _coded(entities: pa.ChunkedArray, times_s: np.ndarray | None) -> Trace:
    coded = entities.combine_chunks().dictionary_encode()
    return Trace.of(coded.indices.to_numpy().astype(np.int64), coded.dictionary.to_pylist(), times_s)
