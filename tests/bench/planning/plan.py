"""Which devices are loaded how far, how long, and how often the simulator meets the bound."""

from dataclasses import dataclass

from schemas.capacity import BatchTime

# Fixed and per-row time balanced, mostly fixed, mostly per row.
DEVICES = (BatchTime(6.0, 1.2), BatchTime(20.0, 1.0), BatchTime(3.0, 1.4))
# Mean and p99 are judged below it. Above, a run of seconds says little about the long run: nothing is loaded.
JUDGED_BELOW = 0.85
MEAN_WITHIN, P99_WITHIN = 0.1, 0.2


@dataclass(frozen=True)
class Point:
    """A share of what full batches give, and for how long each run is measured after its warm-up."""

    utilisation: float
    measured_s: float


@dataclass(frozen=True)
class Plan:
    """Attributes:
    devices: each with its points.
    rounds: of the profile, which is measured first.
    runs: of each point; medians count, so that a bad second of the machine is no error of the plan.
    cpu: points of the real model, at most `cpu_most_per_s`, which one API worker can still pass on.
    calibrated_s: of each load that is not judged, and tells what the tier adds to the profile.
    again_s: of load at most, for points in which the emulated device stalled: each is measured again, once.
    triples, requests: of simulator against bound.
    """

    devices: tuple[tuple[BatchTime, tuple[Point, ...]], ...]
    cpu: tuple[Point, ...]
    cpu_most_per_s: float
    rounds: int
    runs: int
    warm_s: float
    calibrated_s: float
    again_s: float
    triples: int
    requests: int


# The fuller, the longer a queue remembers, and the longer a run must be to show its mean.
_FULL_POINTS = (Point(0.2, 4), Point(0.4, 4), Point(0.6, 4), Point(0.7, 5), Point(0.8, 8))
_QUICK_POINTS = tuple(Point(share, 1.6) for share in (0.2, 0.4, 0.6, 0.7, 0.8))

FULL = Plan(
    devices=tuple((device, _FULL_POINTS) for device in DEVICES),
    cpu=tuple(Point(share, 2) for share in (0.2, 0.4, 0.6, 0.7, 0.8)),
    cpu_most_per_s=500,
    rounds=7,
    runs=3,
    warm_s=1.0,
    calibrated_s=3.0,
    again_s=60.0,
    triples=200,
    requests=60_000,
)
QUICK = Plan(
    devices=((DEVICES[0], _QUICK_POINTS),),
    cpu=(),
    cpu_most_per_s=500,
    rounds=2,
    runs=1,
    warm_s=0.6,
    calibrated_s=1.5,
    again_s=0.0,
    triples=200,
    requests=6_400,
)
