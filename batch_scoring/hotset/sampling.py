"""Simulation on a sample of the key space: every request of an entity whose hash is small, none of the others.

A cache of K slots under all requests behaves as one of K × share slots under the sample's, since each entity
brings its whole pattern of requests along. Source: Waldspurger et al., SHARDS (FAST 2015).
"""

from collections.abc import Iterable
from math import sqrt
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from batch_scoring.hotset.trace import Trace

# A prime below 2^32; products with the factor stay below 2^63, so that Spark's bigint holds them.
HASH_MODULUS = 4_294_967_291
HASH_FACTOR = 1_103_515_245


def key_hash(entity: str) -> int:
    """0 to `HASH_MODULUS` − 1; `hash_sql` is the same in Spark."""
    # CRC alone is linear: ids that count up would not be spread.
    return crc32(entity.encode()) * HASH_FACTOR % HASH_MODULUS


def hash_sql(column: str) -> str:
    """Spark SQL of `key_hash` of a text column."""
    return f"(crc32(encode({column}, 'UTF-8')) * {HASH_FACTOR}L) % {HASH_MODULUS}L"


def is_sampled(names: Iterable[str], share: float) -> npt.NDArray[np.bool_]:
    below = share * HASH_MODULUS
    return np.fromiter((key_hash(name) < below for name in names), np.bool_)


def trace_of(rows: pa.Table) -> Trace:
    """Of (entity, time_s, requests) rows in any order; requests of one moment go by the bytes of their ids."""
    coded = rows["entity"].combine_chunks().dictionary_encode()
    order = np.argsort(np.array(coded.dictionary.to_pylist(), dtype=object), kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    codes = place[coded.indices.to_numpy()]
    times_s = rows["time_s"].to_numpy().astype(np.float64)
    sort = np.lexsort((codes, times_s))
    repeats = rows["requests"].to_numpy()[sort]
    names = coded.dictionary.take(pa.array(order)).to_pylist()
    return Trace.of(np.repeat(codes[sort], repeats), names, np.repeat(times_s[sort], repeats))


def sampled(trace: Trace, most_requests: int) -> tuple[Trace, float]:
    """The trace with some `most_requests` of its requests, and the share of the entities that this is of."""
    share = min(1.0, most_requests / max(1, len(trace.codes)))
    return (trace, 1.0) if share == 1 else (trace.only(is_sampled(trace.names, share)), share)


def hit_rate_error(codes: npt.NDArray[np.int64], hits: npt.NDArray[np.bool_], share: float) -> float:
    """The standard error of a hit rate measured on a sample of entities; 0 where all were taken.

    Entities are drawn, not requests: the usual error of a ratio under cluster sampling.
    Source: Cochran, Sampling Techniques, section 2.11 and chapter 9.
    """
    requests = np.bincount(codes).astype(np.float64)
    drawn = np.count_nonzero(requests)
    if share >= 1 or drawn < 2:
        return 0.0
    hit = np.bincount(codes, weights=hits, minlength=len(requests))
    off = hit - hits.mean() * requests
    return float(sqrt((1 - share) * drawn / (drawn - 1) * np.sum(off**2)) / len(codes))
