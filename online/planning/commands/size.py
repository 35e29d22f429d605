"""`size`: replicas for a peak rate and a latency goal, with hot set, caches, and these cold."""

import argparse

from online.planning.answer import Answer
from online.planning.commands.options import (
    add_device,
    add_goal,
    add_outside,
    add_price,
    add_shares,
    add_weights,
    example,
    goal_of,
    profile_of,
    replica_of,
    weights_of,
)
from online.planning.size_question import SizeQuestion, size_answer

NAME, HELP = "size", "replicas, latency and money for a peak rate, with and without hot set and caches"
EPILOG = example(
    "size --tau0 6 --alpha 1.2 --peak-per-s 2000 --p99 50ms --hit-share 0.7 --cache-share 0.3 --hit 1.5ms",
    "size --profile profile.json --peak-per-s 600 --p99 80ms --weight-gb 0.44 --memory-gb 16",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_device(parser)
    parser.add_argument(
        "--peak-per-s", type=float, required=True, metavar="R", help="requests a second, in the busiest minute"
    )
    parser.add_argument(
        "--requests-per-month", type=float, metavar="N", help="default: the peak rate all the time"
    )
    add_goal(parser)
    add_shares(parser)
    add_outside(parser)
    add_price(parser)
    add_weights(parser)


def answer(arguments: argparse.Namespace) -> Answer:
    profile = profile_of(arguments)
    question = SizeQuestion(
        replica=replica_of(arguments, profile),
        goal=goal_of(arguments),
        peak_per_s=arguments.peak_per_s,
        requests_per_month=arguments.requests_per_month,
        hit_share=arguments.hit_share,
        cache_share=arguments.cache_share,
        hit_ms=arguments.hit_ms,
        weights=weights_of(arguments),
        profile=profile,
    )
    return size_answer(question)
