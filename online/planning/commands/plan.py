"""`plan`: from this system's own profile and request log to fleets, end to end."""

import argparse
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from online.planning.answer import Answer
from online.planning.checks import OutOfRange
from online.planning.commands.options import (
    add_goal,
    add_price,
    add_shares,
    add_weights,
    duration_ms,
    example,
    goal_of,
    weights_of,
)
from online.planning.fleets_answer import fleets_answer
from online.planning.plan import Plan, Wish, make_plan
from online.planning.profile_file import read_profile
from online.planning.request_log import Logged, read_log
from online.planning.size_question import basis_document

NAME, HELP = "plan", "end to end from a profile and the request log: replicas, latency, money, budget"
EPILOG = example(
    "plan --profile profile.json --log .hotset/data/requests --p99 50ms --budget 2000",
    "plan --profile profile.json --log requests/ --p99 50ms --growth 3 --hot-set hotset.parquet",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--profile", type=Path, required=True, metavar="FILE.json", help="of `python -m online.inference profile`"
    )
    parser.add_argument(
        "--log", required=True, metavar="FOLDER", help="request log: a folder or fsspec URL of Parquet"
    )
    parser.add_argument("--model", metavar="NAME", help="where the log holds several")
    parser.add_argument(
        "--since", type=_moment, metavar="DATE", help="UTC, such as 2026-11-28 or 2026-11-28T06:00"
    )
    parser.add_argument("--until", type=_moment, metavar="DATE", help="excluded")
    parser.add_argument(
        "--growth", type=float, default=1.0, metavar="X", help="times the log's traffic; default 1"
    )
    parser.add_argument(
        "--hot-set", metavar="FILE", help="Parquet with `entity`: plan as if these had been precomputed"
    )
    add_goal(parser)
    add_shares(parser, "instead of what the log shows")
    parser.add_argument("--outside", dest="outside_ms", type=duration_ms, metavar="MS",
                        help="of a live answer, outside queue and device; default: the log's")  # fmt: skip
    parser.add_argument("--outside-row", dest="outside_row_ms", type=duration_ms, metavar="MS",
                        help="and for each row of its batch; default: the log's, or 0 with --outside")  # fmt: skip
    parser.add_argument("--max-batch-rows", type=int, metavar="N", help="default: the profile's largest")
    add_price(parser)
    add_weights(parser)


def answer(arguments: argparse.Namespace) -> Answer:
    goal, weights = goal_of(arguments), weights_of(arguments)
    profile = read_profile(arguments.profile)
    if arguments.since and arguments.until and arguments.since >= arguments.until:
        raise OutOfRange("until", arguments.until, f"after since, which is {arguments.since}")
    logged = read_log(
        arguments.log, arguments.model, since=arguments.since, until=arguments.until, hot_set=arguments.hot_set
    )
    wish = Wish(
        goal=goal,
        price_per_hour=arguments.price_per_hour,
        growth=arguments.growth,
        hit_share=arguments.hit_share,
        cache_share=arguments.cache_share,
        hit_ms=arguments.hit_ms,
        outside_ms=arguments.outside_ms,
        outside_row_ms=arguments.outside_row_ms,
        max_batch_rows=arguments.max_batch_rows,
    )
    made = make_plan(profile, logged, wish)
    notes = [*made.notes, *weights.notes]
    found = fleets_answer(made.replica, made.traffic, made.batch, made.fleets, goal, notes)
    document = {**_sources(arguments, logged, made), **found.document, **basis_document(profile, weights)}
    return replace(found, document=document)


def _sources(arguments: argparse.Namespace, logged: Logged, made: Plan) -> dict[str, object]:
    return {
        "profile": str(arguments.profile),
        "log": arguments.log,
        "model": logged.model,
        "requests": logged.requests,
        "from": f"{logged.first:%Y-%m-%dT%H:%MZ}",
        "to": f"{logged.last:%Y-%m-%dT%H:%MZ}",
        "busiest_minute": f"{logged.peak.at:%Y-%m-%dT%H:%MZ}",
        "is_own_log": logged.is_own,
        "hot_share": logged.hot_share,
        "cache_share_of_rest": logged.cache_share,
        "growth": arguments.growth,
        "device_over_profile": made.device_over_profile,
    }


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date such as 2026-11-28") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
