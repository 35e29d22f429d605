"""`batch`: what batches gain, and the latency at a rate: textbook, bound and simulation side by side."""

import argparse
from math import inf

from online.planning.answer import Answer, Sheet, milliseconds, number, percent
from online.planning.batching import saturation_per_s
from online.planning.commands.options import (
    add_device,
    add_simulation,
    duration_ms,
    example,
    profile_of,
    replica_of,
)
from online.planning.device_queue import BatchingRule
from online.planning.latency import Latency, latency_at
from online.planning.profile_notes import profile_document, profile_notes
from online.planning.replica import Replica, table_of_batches
from online.planning.simulation import REQUESTS, Simulated
from schemas.capacity import LEAST_GAIN

NAME, HELP = "batch", "throughput and latency of batching on one device"
EPILOG = example(
    "batch --tau0 6 --alpha 1.2 --rate-per-s 100 --rate-per-s 600",
    "batch --profile profile.json --rate-per-s 300 --max-delay 5ms --deadline 80ms",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_device(parser)
    parser.add_argument(
        "--rate-per-s", dest="rates_per_s", type=float, action="append", default=[], metavar="R",
        help="requests a second that come to the device; may be given several times",
    )  # fmt: skip
    parser.add_argument("--max-delay", dest="max_delay_ms", type=duration_ms, default=0.0, metavar="MS",
                        help="an idle device waits so long for company; default 0")  # fmt: skip
    parser.add_argument("--deadline", dest="deadline_ms", type=duration_ms, default=inf, metavar="MS",
                        help="who would be answered later is dropped; default none")  # fmt: skip
    add_simulation(parser, REQUESTS)


def answer(arguments: argparse.Namespace) -> Answer:
    profile = profile_of(arguments)
    replica = replica_of(arguments, profile)
    sheets, notes = [_sizes(replica)], profile_notes(profile)
    document: dict[str, object] = {
        "tau0_ms": replica.time.tau0_ms,
        "alpha_ms": replica.time.alpha_ms,
        "max_batch_rows": replica.max_batch_rows,
        "knee_rows": replica.knee_rows,
        "saturation_per_s": saturation_per_s(replica.time, replica.max_batch_rows),
        **profile_document(profile),
        "batches": [
            {"rows": rows, "batch_ms": ms, "rows_per_s": rate, "doubling_gain": gain}
            for rows, ms, rate, gain in table_of_batches(replica)
        ],
    }
    rule = BatchingRule(replica.max_batch_rows, arguments.max_delay_ms, arguments.deadline_ms)
    points = [
        _point(latency_at(replica, rate, rule, requests=arguments.requests, seed=arguments.seed))
        for rate in arguments.rates_per_s
    ]
    if points:
        document["rates"] = points
        sheets.append(_latencies(points))
        notes.append(
            "Textbook: half a batch of waiting, then one, with every batch the mean one; tail: two batches. "
            "Bound: Inoue, arXiv 1912.06322, without cap, delay and deadline. Simulated with all three; ± is 95 %."
        )
    notes.append(f"Knee {replica.knee_rows}: beyond it, doubling a batch gains under {LEAST_GAIN:.0%} throughput.")
    return Answer(document, sheets, notes)


def _point(found: Latency) -> dict[str, object]:
    fields = [name for name in found.__dataclass_fields__ if name != "simulated"]
    return {**{name: getattr(found, name) for name in fields}, **simulated_document(found.simulated)}


def simulated_document(found: Simulated) -> dict[str, object]:
    return {
        "simulated_mean_ms": found.mean_ms.value,
        "simulated_mean_half_width_ms": found.mean_ms.half_width,
        "simulated_p50_ms": found.p50_ms,
        "simulated_p99_ms": found.p99_ms.value,
        "simulated_p99_half_width_ms": found.p99_ms.half_width,
        "simulated_batch_rows": found.batch_rows,
        "simulated_busy_share": found.busy_share,
        "simulated_dropped_share": found.dropped_share,
    }


def _sizes(replica: Replica) -> Sheet:
    rows = [
        (str(rows), milliseconds(ms), number(rate), percent(gain) if rows < replica.max_batch_rows else "")
        for rows, ms, rate, gain in table_of_batches(replica)
    ]
    how = f"T(b) = {replica.time.tau0_ms:.4g} + {replica.time.alpha_ms:.4g} b ms"
    title = how if replica.measured is None else f"As measured; no line fits, not even {how}"
    return Sheet(title, ("batch b, rows", "T(b), ms", "rows/s", "doubling gains"), rows)


def _latencies(points: list[dict[str, object]]) -> Sheet:
    def cell(point: dict[str, object], name: str) -> float:
        return float(str(point[name]))

    rows = [
        (
            number(cell(point, "rate_per_s")),
            percent(cell(point, "utilisation")),
            number(cell(point, "steady_batch_rows"), 3),
            f"{milliseconds(cell(point, 'textbook_mean_ms'))} / {milliseconds(cell(point, 'textbook_tail_ms'))}",
            milliseconds(cell(point, "bound_mean_ms")),
            f"{cell(point, 'simulated_mean_ms'):,.1f} ± {cell(point, 'simulated_mean_half_width_ms'):.1f}",
            f"{milliseconds(cell(point, 'simulated_p50_ms'))} / {milliseconds(cell(point, 'simulated_p99_ms'))}",
            percent(cell(point, "simulated_dropped_share")),
        )
        for point in points
    ]
    head = (
        "requests/s", "of capacity", "steady b", "textbook mean / tail, ms", "bound, ms",
        "simulated mean, ms", "p50 / p99, ms", "dropped",
    )  # fmt: skip
    return Sheet("Latency when everything that waits is taken", head, rows)
