"""`queues`: each replica takes one request at a time, for comparison, and what over-provisioning costs."""

import argparse

from online.planning.answer import Answer, Sheet, dollars, milliseconds, percent
from online.planning.commands.options import add_price, duration_ms, example
from online.planning.prices import month_of
from online.planning.queues import Provision, provisions

NAME, HELP = "queues", "without batching: M/M/1 and M/D/1 for each replica, and what spare replicas cost"
EPILOG = example("queues --rate-per-s 600 --service 7.2ms")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rate-per-s", type=float, required=True, metavar="R", help="requests a second, all together"
    )
    parser.add_argument(
        "--service", dest="service_ms", type=duration_ms, required=True, metavar="MS", help="of one"
    )
    parser.add_argument("--more", type=int, default=4, metavar="N", help="replicas beyond the fewest; default 4")
    add_price(parser)


def answer(arguments: argparse.Namespace) -> Answer:
    month = month_of(arguments.price_per_hour)
    steps = provisions(arguments.rate_per_s, arguments.service_ms, month, arguments.more)
    head = (
        "replicas",
        "busy",
        "M/M/1 wait, ms",
        "latency, ms",
        "M/D/1 wait, ms",
        "latency, ms",
        "a month",
        "over fewest",
    )
    notes = [
        "M/M/1 takes service times for exponential; those of a model hardly vary, which is M/D/1.",
        "Requests are spread at random; sending each to the least loaded replica waits less.",
    ]
    title = f"{arguments.rate_per_s:g} requests/s of {arguments.service_ms:g} ms, one at a time"
    document: dict[str, object] = {"replicas": [_document(step) for step in steps]}
    return Answer(document, [Sheet(title, head, [_row(step) for step in steps])], notes)


def _row(step: Provision) -> tuple[str, ...]:
    return (
        str(step.replicas),
        percent(step.mm1.utilisation),
        *(milliseconds(ms) for queue in (step.mm1, step.md1) for ms in (queue.wait_ms, queue.latency_ms)),
        dollars(step.cost_per_month),
        dollars(step.over_fewest_per_month),
    )


def _document(step: Provision) -> dict[str, object]:
    return {
        "replicas": step.replicas,
        "utilisation": step.mm1.utilisation,
        "mm1_wait_ms": step.mm1.wait_ms,
        "mm1_latency_ms": step.mm1.latency_ms,
        "md1_wait_ms": step.md1.wait_ms,
        "md1_latency_ms": step.md1.latency_ms,
        "cost_per_month": step.cost_per_month,
        "over_fewest_per_month": step.over_fewest_per_month,
    }
