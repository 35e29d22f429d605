"""`blend` and `cascade`: effective latency or cost where not every request takes the same way."""

import argparse

from online.planning.answer import Answer, facts, number
from online.planning.blends import cascade_blend, lookup_blend, replicas_behind
from online.planning.commands.options import example


class Lookup:
    """Hot set or cache before the model."""

    NAME, HELP = "blend", "effective latency or cost with a hot set or a cache before the model"
    EPILOG = example("blend --hit-share 0.7 --hit 2 --miss 45 --replicas 10")

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--hit-share", type=float, required=True, metavar="SHARE", help="0 to 1")
        parser.add_argument("--hit", type=float, required=True, metavar="X", help="a look-up, in ms or $")
        parser.add_argument("--miss", type=float, required=True, metavar="X", help="the model, in the same unit")
        parser.add_argument("--replicas", type=int, metavar="N", help="that all requests would need")

    @staticmethod
    def answer(arguments: argparse.Namespace) -> Answer:
        found = lookup_blend(arguments.hit_share, arguments.hit, arguments.miss)
        document: dict[str, object] = {
            "effective": found.whole,
            "effective_without_lookup_of_misses": found.simple,
        }
        pairs = [
            ("effective, in the unit given", number(found.whole)),
            ("simpler form, a miss's look-up left out", number(found.simple)),
        ]
        if arguments.replicas is not None:
            left = replicas_behind(arguments.replicas, arguments.hit_share)
            document["replicas"] = left
            pairs.append(("replicas left, in proportion", f"{left} of {arguments.replicas}"))
        notes = ["In proportion leaves out that thinner traffic makes smaller batches: `size` counts them."]
        sheet = facts(f"{arguments.hit_share:.0%} hits", pairs)
        return Answer(document, [sheet], notes if arguments.replicas else ())


class Cascade:
    """A small model before a large one."""

    NAME, HELP = "cascade", "effective latency or cost of a small model that passes the rest on to a large one"
    EPILOG = example("cascade --answered-share 0.85 --first 3 --second 60")

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--answered-share", type=float, required=True, metavar="SHARE", help="by the small one"
        )
        parser.add_argument("--first", type=float, required=True, metavar="X", help="the small model, in ms or $")
        parser.add_argument("--second", type=float, required=True, metavar="X", help="the large one alone")

    @staticmethod
    def answer(arguments: argparse.Namespace) -> Answer:
        found = cascade_blend(arguments.answered_share, arguments.first, arguments.second)
        document: dict[str, object] = {
            "effective": found.whole,
            "effective_without_first_of_passed_on": found.simple,
        }
        pairs = [
            ("effective, in the unit given", number(found.whole)),
            ("simpler form, the first model left out of what is passed on", number(found.simple)),
        ]
        return Answer(document, [facts(f"{arguments.answered_share:.0%} answered by the small model", pairs)])
