"""`serverless` and `economics`: questions of price alone."""

import argparse

from online.planning.answer import Answer, dollars, facts, number, percent
from online.planning.checks import OutOfRange, not_negative
from online.planning.commands.options import dollars as amount
from online.planning.commands.options import duration_ms, example
from online.planning.economics import earn_back
from online.planning.prices import HOURS_PER_MONTH, MACHINE_HOUR, SERVERLESS_GB_S, SERVERLESS_REQUEST
from online.planning.serverless import (
    break_even,
    cold_start_share,
    latency_with_cold_starts_ms,
    request_price,
    serverless_per_month,
)


class Serverless:
    """Serverless or always on."""

    NAME, HELP = "serverless", "serverless or always on: price of a request, break-even, cold starts"
    EPILOG = example(
        "serverless --memory-gb 3 --duration 500ms --machines 2 --machine-price-per-hour 0.34 --rate-per-s 100"
    )

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--memory-gb", type=float, required=True, metavar="GB", help="of the function")
        parser.add_argument(
            "--duration", dest="duration_ms", type=duration_ms, required=True, metavar="MS", help="of a request"
        )
        parser.add_argument("--rate-per-s", type=float, metavar="R", help="mean over a month, to compare at")
        parser.add_argument("--machines", type=int, default=1, help="that run all the time instead; default 1")
        parser.add_argument(
            "--machine-price-per-hour",
            type=amount,
            default=MACHINE_HOUR.value,
            metavar="$",
            help=f"default {MACHINE_HOUR}",
        )
        parser.add_argument(
            "--price-per-gb-s",
            type=float,
            default=SERVERLESS_GB_S.value,
            metavar="$",
            help=f"default {SERVERLESS_GB_S}",
        )
        parser.add_argument(
            "--price-per-request", type=float, default=SERVERLESS_REQUEST.value, metavar="$",
            help=f"fee of a call; default {SERVERLESS_REQUEST}",
        )  # fmt: skip
        parser.add_argument("--cold-start", dest="cold_start_ms", type=duration_ms, default=3000.0, metavar="MS",
                            help="until a new instance has loaded the model; default 3 s")  # fmt: skip
        parser.add_argument("--keep-warm-s", type=float, default=600.0, metavar="S",
                            help="an idle instance is kept so long; default 600")  # fmt: skip

    @staticmethod
    def answer(arguments: argparse.Namespace) -> Answer:
        not_negative(machine_price_per_hour=arguments.machine_price_per_hour)
        price = request_price(
            arguments.memory_gb, arguments.duration_ms, arguments.price_per_gb_s, arguments.price_per_request
        )
        even = break_even(price, arguments.machines, arguments.machine_price_per_hour)
        document: dict[str, object] = {
            "price_per_request": price,
            "always_on_per_month": even.always_on_per_month,
            "break_even_requests_per_month": even.requests_per_month,
            "break_even_rate_per_s": even.rate_per_s,
        }
        pairs = [
            ("a request, serverless", f"${price:.10f}".rstrip("0")),
            ("always on, a month", dollars(even.always_on_per_month)),
            ("break-even", f"{number(even.rate_per_s, 3)} requests/s, {number(even.requests_per_month)} a month"),
        ]
        if (rate := arguments.rate_per_s) is not None:
            month = serverless_per_month(rate, price)
            cold = cold_start_share(rate, arguments.keep_warm_s)
            mean_ms = latency_with_cold_starts_ms(arguments.duration_ms, arguments.cold_start_ms, cold)
            is_serverless = month < even.always_on_per_month
            document |= {
                "rate_per_s": rate,
                "serverless_per_month": month,
                "cold_start_share": cold,
                "mean_with_cold_starts_ms": mean_ms,
                "cheaper": "serverless" if is_serverless else "always on",
            }
            pairs += [
                (f"serverless at {number(rate)}/s, a month", dollars(month)),
                ("cheaper", "serverless" if is_serverless else "always on, if the machines can do it (`size`)"),
                ("cold starts", f"{percent(cold)}; mean duration {number(mean_ms)} ms"),
            ]
        notes = [
            f"A month has {HOURS_PER_MONTH} h. Free allowances are left out; time is billed by the millisecond.",
            "Cold starts: gaps longer than an idle instance is kept; bursts that start more are left out.",
        ]
        return Answer(document, [facts("Serverless or always on", pairs)], notes)


class Economics:
    """Whether training pays."""

    NAME, HELP = "economics", "requests needed to earn back the cost of training"
    EPILOG = example(
        "economics --training-cost 10000 --price-per-request 0.001 --cost-per-request 0.0002",
        "economics --training-cost 10000 --price-per-request 0.001 --cost-per-million 2.3",
    )

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--training-cost", type=amount, required=True, metavar="$", help="once")
        parser.add_argument("--price-per-request", type=amount, required=True, metavar="$", help="what one earns")
        parser.add_argument("--cost-per-request", type=amount, metavar="$", help="what one costs to serve")
        parser.add_argument(
            "--cost-per-million", type=amount, metavar="$", help="the same, as `size` and `plan` say it"
        )
        parser.add_argument("--requests-per-month", type=float, metavar="N", help="to say when it is earned back")

    @staticmethod
    def answer(arguments: argparse.Namespace) -> Answer:
        each, million = arguments.cost_per_request, arguments.cost_per_million
        if (each is None) == (million is None):
            raise OutOfRange("cost_per_request", each, "one of --cost-per-request and --cost-per-million")
        cost = each if million is None else million / 1e6
        found = earn_back(arguments.training_cost, arguments.price_per_request, cost, arguments.requests_per_month)
        pairs = [
            ("margin of a request", f"${number(found.margin_per_request)}"),
            ("requests to earn it back", f"{found.requests:,}"),
        ]
        if found.months is not None:
            pairs.append(("months", number(found.months, 3)))
        document: dict[str, object] = {
            "margin_per_request": found.margin_per_request,
            "requests": found.requests,
            "months": found.months,
        }
        return Answer(document, [facts("Earning back a training", pairs)], ())
