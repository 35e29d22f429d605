"""Command line of `python -m online.inference profile`."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from online.inference.cpus import available_cpus
from online.inference.devices import Device, parse_device

DEFAULT_ROUNDS = 7


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """What to measure and where to write it; None: the command chooses."""

    bundle: Path
    device: Device
    threads: int
    max_batch_rows: int | None
    rounds: int
    out: Path | None
    png: Path | None

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> Self:
        return cls(**{name: getattr(arguments, name) for name in cls.__dataclass_fields__})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bundle", type=Path, required=True, metavar="DIR", help="folder of the bundle")
    parser.add_argument("--device", type=_device, required=True, help="cpu, cuda:N, or emulated:TAU0_MS,ALPHA_MS")
    parser.add_argument(
        "--threads", type=_positive, default=available_cpus(), help="of one forward; default: the cores allowed"
    )
    parser.add_argument(
        "--max-batch-rows", type=_positive, metavar="N", help="largest batch measured; default: the bundle's own"
    )
    parser.add_argument(
        "--rounds", type=_positive, default=DEFAULT_ROUNDS, metavar="N", help="times each size is measured"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="default: a name made of what was measured")
    parser.add_argument("--png", type=Path, metavar="FILE.png", help="default: beside the JSON")


def _device(text: str) -> Device:
    try:
        return parse_device(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _positive(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)
