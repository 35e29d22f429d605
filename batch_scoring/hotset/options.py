"""Words and numbers of the command line."""

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from batch_scoring.hotset.cost import CostModel
from batch_scoring.hotset.redis_eviction import LFU, LRU, Eviction
from batch_scoring.hotset.split import ADMISSIONS, EVICTIONS, WrittenBack
from batch_scoring.hotset.trace import BadLog

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_SPANS_S = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
# What is read into memory whole; more goes through Spark.
LOCAL_BYTES = 256 * 10**6
# That are simulated whole: a choice needs the best split only, a backtest says how well each did.
MOST_REQUESTS = {"choose": 100_000, "backtest": 1_000_000}


@dataclass(frozen=True)
class Options:
    """As given; None is what was not."""

    log: str
    out: Path
    budget_bytes: float | None
    entity: str | None
    time: str | None
    order: str | None
    cost_column: str | None
    id_column: str | None
    refresh_s: float | None
    history: int | None
    max_fraction: float
    mandatory: tuple[str, ...]
    blocked: tuple[str, ...]
    model: CostModel
    server: WrittenBack
    engine: str
    most_requests: int
    seed: int
    price: float | None

    @classmethod
    def of(cls, found: argparse.Namespace) -> Self:
        """Raises BadLog in words, pydantic.ValidationError for costs that cannot be."""
        if not 0 < found.max_fraction <= 1:
            raise BadLog("--max-fraction is a share above 0 and at most 1")
        if found.write_back_after is not None and found.write_back_after < 1:
            raise BadLog("--write-back-after is at least 1")
        if found.simulate_requests < 1000:
            raise BadLog("--simulate-requests is at least 1000")
        if found.price is not None and found.price <= 0:
            raise BadLog("--price is above 0")
        costs = {name: getattr(found, name) for name in CostModel.model_fields if getattr(found, name) is not None}
        return cls(
            found.log,
            Path(found.out),
            None if found.budget is None else byte_count(found.budget),
            found.entity_column,
            found.time_column,
            found.order_column,
            found.cost_column,
            found.id_column,
            None if found.refresh is None else seconds(found.refresh),
            found.history,
            found.max_fraction,
            _lines(found.mandatory),
            _lines(found.block),
            CostModel(**costs),
            WrittenBack(
                None if found.ttl is None else seconds(found.ttl),
                _evictions(found.eviction, found.lfu_decay_minutes),
                ADMISSIONS if found.write_back_after is None else (found.write_back_after,),
                found.seed,
            ),
            found.engine,
            found.simulate_requests,
            found.seed,
            found.price,
        )


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m batch_scoring.hotset", description="Which entities to precompute."
    )
    commands = top.add_subparsers(dest="command", required=True)
    for name, text in (
        ("choose", "choose for the time after the log ends; writes hotset.parquet, report.json and report.png"),
        ("backtest", "try the choice on the log's own past, beside other ways to use the memory"),
    ):
        one = commands.add_parser(name, help=text, description=text)
        _add_log(one)
        _add_choice(one)
    return top


def _add_log(one: argparse.ArgumentParser) -> None:
    one.add_argument("--log", required=True, help="a Parquet or CSV file, or a folder of such")
    one.add_argument("--entity-column", metavar="NAME", help="who is asked for; guessed where not given")
    one.add_argument("--time-column", metavar="NAME", help="when: timestamps, ISO 8601 or numbers of an epoch")
    one.add_argument("--order-column", metavar="NAME", help="the order of requests, where there are no times")
    one.add_argument("--cost-column", metavar="NAME", help="what scoring the row costs, in any unit")
    one.add_argument(
        "--id-column", metavar="NAME", help="of requests: rows alike in it, entity and time are one, written twice"
    )
    one.add_argument(
        "--engine", choices=("auto", "local", "spark"), default="auto", help="auto: Spark above 256 MB"
    )
    most = MOST_REQUESTS[one.prog.rpartition(" ")[2]]
    one.add_argument(
        "--simulate-requests", type=int, default=most, metavar="N", help=f"more are sampled: {most:,}"
    )
    one.add_argument("--out", default="hotset-report", metavar="FOLDER", help="default: hotset-report")
    one.add_argument("--seed", type=int, default=1, help="of what is drawn at random (default: %(default)s)")
    one.add_argument("--json", action="store_true", help="the report on standard output instead of a table")
    one.add_argument("--quiet", action="store_true", help="no progress")


def _add_choice(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "--budget", metavar="BYTES", help="memory, as 2GB or 512MiB; else --max-fraction of the entities"
    )
    one.add_argument("--max-fraction", type=float, default=0.05, metavar="SHARE", help="of known entities; 0.05")
    one.add_argument(
        "--refresh", metavar="SPAN", help="between nights, as 1d or 6h; else days, or tenths of the log"
    )
    one.add_argument("--history", type=int, metavar="N", help="refreshes a choice looks back; 28")
    one.add_argument("--mandatory", metavar="FILE", help="entities that are always in, one a line")
    one.add_argument("--block", metavar="FILE", help="entities that are never in, one a line")
    kept = "one refresh" if one.prog.endswith("choose") else "until evicted"
    one.add_argument("--ttl", metavar="SPAN", help=f"how long written-back results are kept; {kept}")
    one.add_argument("--lfu-decay-minutes", type=float, metavar="N", help="Redis's lfu-decay-time; fitted")
    one.add_argument("--eviction", choices=(LFU, LRU), help="Redis's maxmemory-policy; fitted")
    one.add_argument("--write-back-after", type=int, metavar="N", help="the API's API_WRITE_BACK_AFTER; fitted")
    one.add_argument("--price", type=float, metavar="N", help="of a replica an hour, for what is saved")
    for name, field in CostModel.model_fields.items():
        kind = int if field.annotation is int else float
        one.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar="N", help=f"default: {field.default}")


def _evictions(policy: str | None, decay_minutes: float | None) -> tuple[Eviction, ...]:
    """Those of the grid that are not ruled out; a decay of one's own is its own."""
    if decay_minutes is not None:
        if decay_minutes <= 0 or policy == LRU:
            raise BadLog("--lfu-decay-minutes is above 0, and of volatile-lfu")
        return (Eviction(LFU, decay_minutes),)
    return tuple(one for one in EVICTIONS if policy in (None, one.policy))


def byte_count(text: str) -> float:
    """`2GB`, `512MiB`, `1000`. Raises BadLog."""
    return _with_unit(text, _UNITS, "bytes, as 2GB or 512MiB")


def seconds(text: str) -> float:
    """`1d`, `6h`, `90s`. Raises BadLog."""
    return _with_unit(text, _SPANS_S, "a time, as 1d, 6h or 90s")


def _with_unit(text: str, units: dict[str, int] | dict[str, float], what: str) -> float:
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    if not found or found[2].lower() not in units or float(found[1]) <= 0:
        raise BadLog(f"{text!r} is not {what}")
    return float(found[1]) * units[found[2].lower()]


def _lines(path: str | None) -> tuple[str, ...]:
    if path is None:
        return ()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadLog(f"{path} is not UTF-8 text") from None
    return tuple(line for line in text.split("\n") if line)
