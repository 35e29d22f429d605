"""Options that several questions share: what a device is, how long it runs, what it costs."""

import argparse
import re
from pathlib import Path

from online.planning.batching import checked_time
from online.planning.checks import OutOfRange
from online.planning.outside import Outside
from online.planning.prices import GPU_HOUR
from online.planning.profile_file import Profile, read_profile
from online.planning.replica import Goal, Replica
from online.planning.weights import Weights
from schemas.capacity import TARGET_UTILISATION

_DURATION = re.compile(r"([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?) ?(us|ms|s|)\Z")
_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "": 1.0}


def duration_ms(text: str) -> float:
    """`50ms`, `0.05s`, `800us`, or plain milliseconds."""
    if (match := _DURATION.match(text.strip())) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 50ms or 0.05s")
    return float(match[1]) * _MS[match[2]]


def dollars(text: str) -> float:
    """`500`, `$500`, `1,500.50`."""
    try:
        return float(text.strip().removeprefix("$").replace(",", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no amount such as 500 or $1,500") from None


def add_device(parser: argparse.ArgumentParser) -> None:
    """T(b), from a profile or from its two numbers."""
    group = parser.add_argument_group("device", "a profile, or tau0 and alpha of T(b) = tau0 + alpha b")
    group.add_argument(
        "--profile", type=Path, metavar="FILE.json", help="written by `python -m online.inference profile`"
    )
    group.add_argument(
        "--tau0", dest="tau0_ms", type=duration_ms, metavar="MS", help="time of a batch, whatever its size"
    )
    group.add_argument("--alpha", dest="alpha_ms", type=duration_ms, metavar="MS", help="time of each row")
    group.add_argument(
        "--max-batch-rows", type=int, metavar="N", help="largest batch; default: the profile's largest, else 64"
    )


def add_price(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--price-per-hour",
        type=dollars,
        default=GPU_HOUR.value,
        metavar="$",
        help=f"of a replica; default {GPU_HOUR}",
    )


def add_simulation(parser: argparse.ArgumentParser, requests: int) -> None:
    group = parser.add_argument_group("simulation")
    group.add_argument(
        "--requests", type=int, default=requests, metavar="N", help="simulated; default %(default)s"
    )
    group.add_argument(
        "--seed", type=int, default=1, metavar="N", help="the same seed, the same numbers; default 1"
    )


def add_goal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--p99",
        dest="p99_ms",
        type=duration_ms,
        required=True,
        metavar="MS",
        help="goal of a live answer, as 50ms",
    )
    parser.add_argument(
        "--utilisation", type=float, default=TARGET_UTILISATION, metavar="SHARE",
        help="of throughput that a replica is given; default %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--budget", dest="budget_per_month", type=dollars, metavar="$", help="for the replicas, a month"
    )


def add_shares(parser: argparse.ArgumentParser, note: str = "") -> None:
    more = f"; {note}" if note else ""
    parser.add_argument("--hit-share", type=float, metavar="SHARE", help=f"of the peak, in the hot set{more}")
    parser.add_argument("--cache-share", type=float, metavar="SHARE", help=f"of the rest, in a cache{more}")
    parser.add_argument("--hit", dest="hit_ms", type=duration_ms, metavar="MS", help=f"latency of a hit{more}")


def add_weights(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--weight-gb", type=float, metavar="GB", help="of the model, to see whether it fits")
    parser.add_argument("--memory-gb", type=float, metavar="GB", help="of a card")


def weights_of(arguments: argparse.Namespace) -> Weights:
    """Raises OutOfRange."""
    return Weights(arguments.weight_gb, arguments.memory_gb)


def goal_of(arguments: argparse.Namespace) -> Goal:
    """Raises OutOfRange."""
    return Goal(arguments.p99_ms, arguments.utilisation, arguments.budget_per_month)


def profile_of(arguments: argparse.Namespace) -> Profile | None:
    """Raises BadFile."""
    return read_profile(arguments.profile) if arguments.profile is not None else None


def add_outside(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--outside", dest="outside_ms", type=duration_ms, default=0.0, metavar="MS",
                        help="of a live answer, outside queue and device; default 0")  # fmt: skip
    parser.add_argument("--outside-row", dest="outside_row_ms", type=duration_ms, default=0.0, metavar="MS",
                        help="and for each row of its batch, answered one after another; default 0")  # fmt: skip


def replica_of(arguments: argparse.Namespace, profile: Profile | None) -> Replica:
    """Raises OutOfRange."""
    price = getattr(arguments, "price_per_hour", 0.0)
    outside = Outside(getattr(arguments, "outside_ms", 0.0), getattr(arguments, "outside_row_ms", 0.0))
    if profile is not None:
        if arguments.tau0_ms is not None or arguments.alpha_ms is not None:
            raise OutOfRange("--tau0 and --alpha", "given", "only without --profile")
        return profile.replica(price, outside, arguments.max_batch_rows)
    if arguments.tau0_ms is None or arguments.alpha_ms is None:
        raise OutOfRange("--profile", "missing", "a profile, or both --tau0 and --alpha")
    time = checked_time(arguments.tau0_ms, arguments.alpha_ms)
    most = 64 if arguments.max_batch_rows is None else arguments.max_batch_rows
    return Replica(time, most, price, None, outside)


def example(*lines: str) -> str:
    """An epilogue."""
    return "example:\n" + "\n".join(f"  python -m online.planning {line}" for line in lines)
