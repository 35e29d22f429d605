"""How many replicas, their latency and their cost: with the hot set and caches, and when these are cold. Pure.

The peak rate over what a replica may be given (`replica.py`); then the latency of the batches that really come, by
simulation, and more replicas where it is over the goal.
"""

from dataclasses import dataclass, field
from math import ceil, expm1, inf, isnan, nan

from online.planning.blends import lookup_blend
from online.planning.checks import positive
from online.planning.device_queue import BatchingRule
from online.planning.prices import month_of
from online.planning.replica import Batch, Goal, Replica, size_batch
from online.planning.simulation import Simulated, simulate
from online.planning.traffic import Scenario, Traffic
from schemas.capacity import mean_batch_rows, replicas_needed

# A run's certainty grows with the batches of those that meet: who shares one shares its fate.
_BATCHES, _LEAST_REQUESTS, _MOST_REQUESTS = 10_000, 20_000, 60_000
# More are not tried: from there on a replica is idle for 199 of 200 requests, and p99 is that of an idle one.
_IDLE_LOAD = 0.005


@dataclass(frozen=True, slots=True)
class Cold:
    """What a fleet does when every store is empty. `load`: of what it can give with full batches.

    `in_time_share` is an upper bound: the product refuses by a prediction with a margin, and so a little more.
    """

    rate_per_s: float
    load: float
    in_time_share: float
    replicas: int


@dataclass(frozen=True, slots=True)
class Fleet:
    """The answer for one scenario. Latencies are of live answers, the time outside the device included.

    Attributes:
        by_rate: replicas by the rate alone; `replicas` has those that the p99 needs as well.
        p99_half_width_ms: of its 95 % interval, by the simulation alone.
        is_in_time: p99 within the goal.
        load: the rate over throughput of the batch sized by, for each replica; `busy_share` of the time it works.
        all_mean_ms: mean of all answers, hits included; NaN where hits are not known.
        is_in_budget: None without a budget.
    """

    scenario: Scenario
    by_rate: int
    replicas: int
    mean_ms: float
    p50_ms: float
    p99_ms: float
    p99_half_width_ms: float
    is_in_time: bool
    batch_rows: float
    load: float
    busy_share: float
    all_mean_ms: float
    cost_per_month: float
    cost_per_million: float
    is_in_budget: bool | None
    cold: Cold | None


def size(
    replica: Replica, traffic: Traffic, goal: Goal, *, requests: int | None = None, seed: int = 1
) -> list[Fleet]:
    """A fleet for each scenario of the traffic. Raises OutOfRange.

    Each replica is taken to get a random share of the requests; the product's API sends to the least loaded one,
    which waits less.

    Args:
        requests: of each simulation; None for 20,000 to 60,000, by how many batches and how few that meet others
            they make.
    """
    batch = size_batch(replica, goal)
    sizer = _Sizer(replica, traffic, goal, batch, requests, seed)
    return [sizer.fleet(scenario) for scenario in traffic.scenarios()]


@dataclass(slots=True)
class _Sizer:
    """`in_time_per_s` is the highest rate of a replica found in time, `late_per_s` the lowest found late."""

    replica: Replica
    traffic: Traffic
    goal: Goal
    batch: Batch
    requests: int | None
    seed: int
    in_time_per_s: float = 0.0
    late_per_s: float = inf
    simulated: dict[tuple[float, float], Simulated] = field(default_factory=dict)

    def fleet(self, scenario: Scenario) -> Fleet:
        by_rate = replicas_needed(scenario.live_per_s, self.batch.per_replica_per_s)
        replicas, found = self._in_time(scenario.live_per_s, by_rate)
        p99_ms = found.p99_ms.value if found else nan
        mean_ms = found.mean_ms.value if found else nan
        month = replicas * month_of(self.replica.price_per_hour)
        budget = self.goal.budget_per_month
        return Fleet(
            scenario=scenario,
            by_rate=by_rate,
            replicas=replicas,
            mean_ms=mean_ms,
            p50_ms=found.p50_ms if found else nan,
            p99_ms=p99_ms,
            p99_half_width_ms=found.p99_ms.half_width if found else nan,
            is_in_time=found is None or p99_ms <= self.goal.p99_ms,
            batch_rows=found.batch_rows if found else nan,
            load=scenario.live_per_s / replicas / self.batch.rows_per_s if replicas else 0.0,
            busy_share=found.busy_share if found else 0.0,
            all_mean_ms=self._all_mean_ms(scenario, mean_ms),
            cost_per_month=month,
            cost_per_million=month / self.traffic.requests_per_month * 1e6,
            is_in_budget=None if budget is None else month <= budget,
            cold=self._cold(scenario, replicas),
        )

    def _in_time(self, rate_per_s: float, replicas: int) -> tuple[int, Simulated | None]:
        """The fewest replicas from `replicas` on whose p99 is within the goal, or `replicas` where none is."""
        if not replicas:
            return 0, None
        fewest = self._fewest(rate_per_s, replicas)
        return fewest, self._simulated(rate_per_s / fewest)

    def _fewest(self, rate_per_s: float, replicas: int) -> int:
        if self._is_in_time(rate_per_s / replicas):
            return replicas
        most = max(replicas + 1, ceil(rate_per_s * self.replica.batch_ms(1) / 1e3 / _IDLE_LOAD))
        low, high = replicas, min(most, 2 * replicas)
        while not self._is_in_time(rate_per_s / high):
            if high == most:
                return replicas
            low, high = high, min(most, 2 * high)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._is_in_time(rate_per_s / middle) else (middle, high)
        return high

    def _is_in_time(self, rate_per_s: float) -> bool:
        """Whether one replica is, at this rate. A rate below one in time is in time, without a simulation."""
        if self.in_time_per_s < rate_per_s < self.late_per_s:
            found = self._simulated(rate_per_s)
            if found.p99_ms.value <= self.goal.p99_ms:
                self.in_time_per_s = rate_per_s
            else:
                self.late_per_s = rate_per_s
        return rate_per_s <= self.in_time_per_s

    def _simulated(self, rate_per_s: float, deadline_ms: float = inf) -> Simulated:
        """Each rate once."""
        known = self.simulated.get((rate_per_s, deadline_ms))
        if known is None:
            rule, requests = (
                BatchingRule(self.replica.max_batch_rows, deadline_ms=deadline_ms),
                self._requests(rate_per_s),
            )
            replica = self.replica
            known = simulate(
                rate_per_s, replica.batch_ms, rule, replica.outside, requests=requests, seed=self.seed
            )
            self.simulated[rate_per_s, deadline_ms] = known
        return known

    def _requests(self, rate_per_s: float) -> int:
        if self.requests is not None:
            return self.requests
        rows = mean_batch_rows(self.replica.time, rate_per_s, self.replica.max_batch_rows)
        meeting = -expm1(-rate_per_s * self.replica.batch_ms(1) / 1e3)
        return int(min(_MOST_REQUESTS, max(_LEAST_REQUESTS, _BATCHES * rows / meeting)))

    def _all_mean_ms(self, scenario: Scenario, live_ms: float) -> float:
        hit_share = 1 - scenario.live_per_s / self.traffic.peak_per_s
        if hit_share <= 0:
            return live_ms
        if not scenario.live_per_s:
            return self.traffic.hit_ms
        if isnan(self.traffic.hit_ms):
            return nan
        # A live answer's time outside the device already holds the look-up that missed.
        return lookup_blend(hit_share, self.traffic.hit_ms, live_ms).simple

    def _cold(self, scenario: Scenario, replicas: int) -> Cold | None:
        if scenario.cold_per_s is None:
            return None
        needed = replicas_needed(scenario.cold_per_s, self.batch.per_replica_per_s)
        if not replicas:
            return Cold(scenario.cold_per_s, nan, 0.0, needed)
        each, cap = scenario.cold_per_s / replicas, self.replica.max_batch_rows
        # Under load batches are as large as may be in time.
        found = self._simulated(each, self.goal.p99_ms - self.replica.outside.mean_ms(self.batch.rows))
        load = each * self.replica.batch_ms(cap) / 1e3 / cap
        return Cold(scenario.cold_per_s, load, 1 - found.dropped_share, needed)


def affordable_replicas(price_per_hour: float, budget_per_month: float) -> int:
    """Replicas that a month's budget pays for, all the time."""
    positive(price_per_hour=price_per_hour, budget_per_month=budget_per_month)
    return int(budget_per_month / month_of(price_per_hour) + 1e-9)
