"""`memory` and `pipeline`: what fits on how many cards, what sets its pace, and how much of a pipeline is idle."""

import argparse
from math import isfinite

from online.planning.answer import Answer, Sheet, facts, number, percent
from online.planning.checks import counts, positive
from online.planning.commands.options import example
from online.planning.memory import BYTES_OF, GB, GIB, LLAMA_3_70B, Card, Transformer, plan_memory
from online.planning.pipelines import bubble, least_micro_batches


class Memory:
    """A transformer on cards."""

    NAME, HELP = (
        "memory",
        "weights, activations and KV cache on n cards; whether capacity, bandwidth or compute limits",
    )
    EPILOG = example(
        "memory --card-memory-gb 80 --tensor-parallel 4 --tokens 4096",
        "memory --parameters 7e9 --layers 32 --hidden 4096 --ffn-hidden 11008 --kv-heads 32 --head-dim 128 "
        "--dtype int8 --card-memory-gb 24 --conversations 20",
    )

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        shape = parser.add_argument_group("model", "defaults: Llama-3-70B")
        for field in ("parameters", "layers", "hidden", "ffn_hidden", "kv_heads", "head_dim"):
            value = getattr(LLAMA_3_70B, field)
            name = f"--{field.replace('_', '-')}"
            shape.add_argument(name, type=type(value), default=value, metavar="N", help=f"default {value:g}")
        shape.add_argument("--dtype", choices=BYTES_OF, default="fp16", help="of weights and activations")
        shape.add_argument("--kv-dtype", choices=BYTES_OF, default="fp16", help="of the KV cache")
        cards = parser.add_argument_group("cards")
        cards.add_argument(
            "--card-memory-gb", dest="memory_gb", type=float, required=True, metavar="GB", help="10^9 bytes"
        )
        cards.add_argument(
            "--reserve-gb", type=float, default=0.0, metavar="GB", help="of each, for driver and context"
        )
        cards.add_argument(
            "--bandwidth-gb-s", type=float, default=2039.0, help="of its memory; default an A100's, 2039"
        )
        cards.add_argument(
            "--tflops", type=float, default=312.0, help="in the weights' type; default an A100's, 312"
        )
        cards.add_argument(
            "--tensor-parallel", type=int, default=1, metavar="N", help="cards that share each layer"
        )
        cards.add_argument("--pipeline-parallel", type=int, default=1, metavar="N", help="stages of layers")
        use = parser.add_argument_group("use")
        use.add_argument("--tokens", type=int, default=4096, metavar="N", help="of a conversation; default 4096")
        use.add_argument(
            "--prefill-rows", type=int, default=0, metavar="N", help="prompts at once; default: left out"
        )
        use.add_argument("--conversations", type=int, metavar="N", help="wanted at once; default: as many as fit")

    @staticmethod
    def answer(arguments: argparse.Namespace) -> Answer:
        if arguments.conversations is not None:
            counts(conversations=arguments.conversations)
        positive(card_memory_gb=arguments.memory_gb)
        shape = {field: getattr(arguments, field) for field in Transformer.__dataclass_fields__}
        card = Card(arguments.memory_gb, arguments.reserve_gb, arguments.bandwidth_gb_s, arguments.tflops)
        found = plan_memory(
            Transformer(**shape),
            card,
            dtype=arguments.dtype,
            kv_dtype=arguments.kv_dtype,
            tensor_parallel=arguments.tensor_parallel,
            pipeline_parallel=arguments.pipeline_parallel,
            tokens=arguments.tokens,
            prefill_rows=arguments.prefill_rows,
            wanted=arguments.conversations,
        )
        document: dict[str, object] = {field: getattr(found, field) for field in found.__dataclass_fields__}
        from_, cards = found.compute_from, f"{found.cards} card{'' if found.cards == 1 else 's'}"
        pairs = [
            ("weights", f"{number(found.weight_bytes / GB)} GB in {arguments.dtype}"),
            ("KV cache of a token", f"{found.kv_bytes_per_token:,.0f} bytes"),
            (
                "KV cache of a conversation",
                f"{number(found.conversation_bytes / GIB)} GiB for {arguments.tokens:,} tokens",
            ),
            ("activations of a pass", f"{number(found.activation_bytes / GIB)} GiB"),
            (f"left on {cards}", f"{number(found.free_bytes / GIB)} GiB"),
            ("conversations that fit", f"{found.conversations:,}"),
            (
                f"a token for each of {found.at_conversations:,}",
                f"{number(found.step_ms, 3)} ms, limited by {found.step_limit}",
            ),
            ("compute limits from", f"{number(from_, 3)} conversations" if isfinite(from_) else "never"),
            ("limit", f"{found.limit}: {found.why}"),
        ]
        notes = ["Communication between cards is left out here: `strategy` counts it."]
        return Answer(document, [facts(f"One copy on {cards} of {card.memory_gb:g} GB", pairs)], notes)


class Pipeline:
    """Bubbles."""

    NAME, HELP = "pipeline", "idle share of a pipeline, by stages and micro-batches"
    EPILOG = example("pipeline --stages 4 --stages 8 --most-idle-share 0.1")

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--stages", type=int, action="append", metavar="P", help="several times; default 2, 4, 8"
        )
        parser.add_argument("--micro-batches", type=int, action="append", metavar="M", help="default 1, 4, 16, 64")
        parser.add_argument("--most-idle-share", type=float, default=0.1, metavar="SHARE", help="default 0.1")

    @staticmethod
    def answer(arguments: argparse.Namespace) -> Answer:
        stages, batches = arguments.stages or [2, 4, 8], arguments.micro_batches or [1, 4, 16, 64]
        share = arguments.most_idle_share
        found = {p: [bubble(p, m) for m in batches] for p in stages}
        needed = {p: least_micro_batches(p, share) for p in stages}
        rows = [(str(p), *(percent(one.idle_share) for one in found[p]), str(needed[p])) for p in stages]
        head = ("stages", *(f"{m} micro-batches" for m in batches), f"fewest for {share:.0%}")
        document: dict[str, object] = {
            "bubbles": [
                {
                    "stages": one.stages,
                    "micro_batches": one.micro_batches,
                    "idle_share": one.idle_share,
                    "over_ideal": one.over_ideal,
                }
                for ones in found.values()
                for one in ones
            ],
            "least_micro_batches": needed,
        }
        notes = ["(p - 1) / (m + p - 1), GPipe, arXiv 1811.06965; stages are taken to be equally long."]
        return Answer(document, [Sheet("Idle share of the stages", head, rows)], notes)
