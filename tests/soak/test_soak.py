"""Nobody gets somebody else's answer, while Redis, the network, the live tier and the clients misbehave at once.

`HOTSET_SOAK_REQUESTS` sets the size; `HOTSET_SOAK_SEED` draws the requests and faults of another run once more,
though not at the same moments.
"""

import asyncio
import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.soak.clients import Leave
from tests.soak.driver import Load, all_hits_again, drive
from tests.soak.proxy import Weather
from tests.soak.stack import Stack, UncheckedApi, running
from tests.soak.tally import Tally, report

pytestmark = [pytest.mark.fault, pytest.mark.timeout(900)]

REQUESTS = int(os.environ.get("HOTSET_SOAK_REQUESTS", "100000"))
FEW = 2000
STORM = Weather(short=0.10, long=0.01, split=0.05, reset=0.005, hang=0.0003)
SWAPPING = replace(STORM, hang=0.0, swap=0.1)

Soak = Callable[[Stack, int], Tally]


@pytest.fixture
def seed() -> int:
    given = os.environ.get("HOTSET_SOAK_SEED")
    return int(given) if given else random.randrange(1 << 32)


@pytest.fixture
def soak(seed: int, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> Soak:
    """Sends so many requests, and prints the counts whether or not pytest captures."""

    def run(stack: Stack, requests: int) -> Tally:
        began_s = time.monotonic()
        tally = asyncio.run(drive(stack, Load(requests), seed))
        took_s = time.monotonic() - began_s
        stack.wait_for_counts()
        with capsys.disabled():
            print(f"\n{request.node.name}, seed {seed}")  # noqa: T201 - the counts are what the soak is for
            print(report(stack, tally, took_s))  # noqa: T201
        return tally

    return run


def test_nobody_gets_somebody_elses_answer(tmp_path: Path, seed: int, soak: Soak) -> None:
    with running(tmp_path, seed, STORM) as stack:
        workers = stack.api.workers()
        tally = soak(stack, REQUESTS)
        assert (tally.crossovers, tally.others, tally.examples) == (0, 0, [])
        assert tally.requests == REQUESTS
        assert stack.foreign == 0
        assert_all_happened(stack, tally)
        after = asyncio.run(all_hits_again(stack, seed))
        assert (after.crossovers, after.others) == (0, 0)
        assert stack.api.workers() == workers


def test_replies_that_change_places_are_misses(tmp_path: Path, seed: int, soak: Soak) -> None:
    """A stored value tells whose it is: none that reaches the wrong asker is answered."""
    with running(tmp_path, seed, SWAPPING) as stack:
        tally = soak(stack, FEW)
        assert (tally.crossovers, tally.others, tally.examples) == (0, 0, [])
        assert stack.proxy.counts["swaps"] > 0
        assert tally.reasons["foreign"] > 0
        assert stack.foreign >= tally.reasons["foreign"]


def test_without_the_check_they_reach_clients(tmp_path: Path, seed: int, soak: Soak) -> None:
    """The soak can fail: as soon as a stored value no longer tells whose it is, clients see wrong answers."""
    with running(tmp_path, seed, SWAPPING, UncheckedApi) as stack:
        tally = soak(stack, FEW)
        assert stack.proxy.counts["swaps"] > 0
        assert tally.crossovers > 0


def assert_all_happened(stack: Stack, tally: Tally) -> None:
    """Else it would have shown little."""
    assert {"precomputed", "cached", "live"} == tally.sources.keys()
    assert len(tally.generations) == len(stack.eras)
    assert {leave.value for leave in Leave} == tally.left.keys()
    assert {"redis_timeout", "breaker_open"} <= tally.reasons.keys()
    assert {"resets", "splits", "short delays", "long delays"} <= {k for k, v in stack.proxy.counts.items() if v}
    assert sum(version.cancels for version in stack.tier.values()) > 0
