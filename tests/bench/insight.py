"""`python -m tests.bench.insight`: what log, metrics and pages cost. Tables, then one line of JSON.

Exit status: 0, or 1 where an answer was wrong or an error or a row was lost, 130 after Ctrl-C.
"""

import argparse
import logging
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import orjson
import psutil
from rich.console import Console
from rich.table import Table

from tests.bench.hits.asking import Draw, get, is_document
from tests.bench.hits.contenders import Contender
from tests.bench.hits.entities import MODEL
from tests.bench.hits.known import publish
from tests.bench.hits.measure import Machine, Turn
from tests.bench.hits.plan import CLOSED, Load
from tests.bench.hits.rounds import Round, median, median_ratio, run_rounds
from tests.bench.insight_pages import measure_pages
from tests.bench.json_line import json_line
from tests.support.api_process import ROOT, ApiProcess, wait_for
from tests.support.redis_server import RedisServer

log = logging.getLogger(__name__)

ON, OFF = "log and metrics on", "off"
_CONNECTIONS = 16


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        pairs: of processes, with log and without: two processes of the same program differ by some percent for as
            long as they live, by where its memory happens to lie.
        redis_pairs: of those that keep nothing in L1, so that each hit asks Redis.
        rounds: of each pair.
        fast_rows, paced_rows: are written as fast as that goes, and at 5,000/s.
        page_rows: of the pages' log.
    """

    pairs: int
    redis_pairs: int
    rounds: int
    warm_s: float
    measured_s: float
    fast_rows: int
    paced_rows: int
    page_rows: int


# A stream of 350,000 rows is over 64 MB, at which it becomes a file.
FULL = Plan(8, 4, 2, 0.5, 3.0, fast_rows=900_000, paced_rows=400_000, page_rows=10_000_000)
QUICK = Plan(2, 1, 2, 0.2, 1.0, fast_rows=200_000, paced_rows=25_000, page_rows=100_000)


@dataclass(frozen=True)
class Results:
    """`pages`, `paced` and `fast` as those that measure them give them."""

    rounds: Sequence[Round]
    redis_rounds: Sequence[Round]
    paced: Mapping[str, float]
    fast: Mapping[str, float]
    pages: Mapping[str, float]
    wall_s: float

    @property
    def turns(self) -> list[Turn]:
        return [turn for one in (*self.rounds, *self.redis_rounds) for turn in one.values()]

    @property
    def is_good(self) -> bool:
        lost = [one for one in (self.paced, self.fast) if one["written"] != one["offered"]]
        return not lost and not any(turn.errors or turn.wrong for turn in self.turns)

    def document(self) -> dict[str, object]:
        return {
            "log_and_metrics_cost_share": _cost_share(self.rounds),
            "redis_hits_cost_share": _cost_share(self.redis_rounds),
            "log_rows_per_s": self.fast["rows_per_s"],
            "log_rss_mb": self.paced["rss_mb"],
            "log_loaded_mb": self.paced["loaded_mb"],
            **self.pages,
            "hits_on_per_s": median(self.rounds, ON, _per_s),
            "hits_off_per_s": median(self.rounds, OFF, _per_s),
            "redis_hits_on_per_s": median(self.redis_rounds, ON, _per_s),
            "redis_hits_off_per_s": median(self.redis_rounds, OFF, _per_s),
            "cost_shares": [1 - _per_s(one[ON]) / _per_s(one[OFF]) for one in self.rounds],
            "cpu_us_on": median(self.rounds, ON, lambda turn: turn.cpu_us),
            "cpu_us_off": median(self.rounds, OFF, lambda turn: turn.cpu_us),
            "log_rows_dropped": self.paced["dropped"] + self.fast["dropped"],
            "wrong_answers": sum(turn.wrong for turn in self.turns),
            "errors": sum(sum(turn.errors.values()) for turn in self.turns),
            "wall_s": self.wall_s,
        }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.insight", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="in little more than a minute, and less certain")
    parser.add_argument("--seed", type=int, default=1, help="of the entities drawn")
    options = parser.parse_args(argv)
    logging.basicConfig(format="%(relativeCreated)6d ms  %(message)s", level=logging.INFO, stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    # So that what was started is stopped also when a supervisor ends this process.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        results = measure(QUICK if options.quick else FULL, options.seed)
    except KeyboardInterrupt:
        log.error("interrupted")
        return 130
    show(results)
    print(json_line(results.document()).decode())  # noqa: T201 - the benchmark's answer
    return 0 if results.is_good else 1


def measure(plan: Plan, seed: int) -> Results:
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hotset-bench-") as name:
        folder = Path(name)
        rounds = _hits(plan, folder, "hits", plan.pairs, seed)
        redis_rounds = _hits(plan, folder, "hits from Redis", plan.redis_pairs, seed, l1_bytes=0)
        log.info("writing rows")
        paced, fast = _write(folder, "paced", plan.paced_rows), _write(folder, "fast", plan.fast_rows)
        log.info("rendering pages of a log of %d rows", plan.page_rows)
        pages = measure_pages(folder / "pages", plan.page_rows)
    return Results(rounds, redis_rounds, paced, fast, pages, time.monotonic() - began_s)


def _hits(plan: Plan, folder: Path, part: str, pairs: int, seed: int, **changed: object) -> list[Round]:
    load = Load(part, CLOSED, _CONNECTIONS, (ON, OFF), plan.rounds, plan.warm_s, plan.measured_s)
    rounds: list[Round] = []
    for pair in range(pairs):
        log.info("%s: pair %d of %d: loading entities and starting both APIs", part, pair + 1, pairs)
        own = folder / f"{part} {pair}"
        own.mkdir()
        with _serving(own, **changed) as (machine, contenders):
            rounds += run_rounds(machine, contenders, load, seed + pair)
    return rounds


@contextmanager
def _serving(folder: Path, **changed: object) -> Iterator[tuple[Machine, dict[str, Contender]]]:
    """As their user starts them, but for one worker each; the two differ in `API_REQUEST_LOG` alone."""
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer())
        # Before others have the port in their words.
        redis_pid = next(
            one.pid for one in psutil.Process().children() if str(redis.port) in " ".join(one.cmdline())
        )
        publish(folder, redis.url)
        contenders = {}
        for name, is_on in ((ON, True), (OFF, False)):
            own = folder / ("on" if is_on else "off")
            own.mkdir()
            settings: dict[str, object] = {
                "redis_url": redis.url,
                "models": [MODEL],
                "request_log": is_on,
                **changed,
            }
            api = ApiProcess(own, allowed_bundle_urls=[str(folder)], **settings)
            stack.enter_context(api)
            write = get(f"/v1/models/{MODEL}/predictions/{{}}")
            contenders[name] = contender = Contender(name, api.port, api.pid, write, is_document)
            wait_for(lambda one=contender: one.check(1, one.ask(1).content) is None, 30, "a right answer")  # type: ignore[misc]
        yield Machine(Draw(1), redis_pid), contenders


def _write(folder: Path, kind: str, rows: int) -> Mapping[str, float]:
    own = folder / kind
    own.mkdir()
    words = [sys.executable, "-m", "tests.bench.insight_writer", str(own), kind, str(rows)]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=300)
    found: Mapping[str, float] = orjson.loads(done.stdout.splitlines()[-1])
    return found


def show(results: Results) -> None:
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 120)
    table = Table(title="What looking at it costs", title_justify="left", title_style="bold")
    for name, justify in (("", "left"), ("measured", "right"), ("wanted", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for what, rounds, wanted in (
        ("hits", results.rounds, "≤ 5 %"),
        ("hits that ask Redis", results.redis_rounds, ""),
    ):
        on, off = (f"{median(rounds, name, _per_s):,.0f}/s" for name in (ON, OFF))
        table.add_row(f"{what}: {on} with log and metrics, {off} without", f"{_cost_share(rounds):.1%}", wanted)
    for name, value in results.pages.items():
        wanted = "≤ 500 ms" if name == "page_p95_ms" else ""
        table.add_row(f"pages: {name}", f"{value:,.1f}", wanted)
    table.add_row("rows the writer takes", f"{results.fast['rows_per_s']:,.0f}/s", "≥ 5,000/s")
    table.add_row("its part of a worker's memory", f"{results.paced['rss_mb']:,.0f} MB", "≤ 100 MB")
    console.print(table)
    if not results.is_good:
        console.print("Not good: answers were wrong or errors, or rows of the log were lost.")


def _cost_share(rounds: Sequence[Round]) -> float:
    """The median over rounds: what slowed a whole round cancels out."""
    return 1 - median_ratio(rounds, ON, OFF, _per_s)


def _per_s(turn: Turn) -> float:
    return turn.good_per_s


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
