"""What a worker is told by its node: command line arguments, since each worker serves one bundle."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from online.inference.devices import Device, parse_device

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """`unix_socket` or else an ephemeral port of `host`; `max_batch_rows` may only lower the bundle's own.

    `threads` are of all `instances` together. `argv` is what the rest was read from; instances are given it too.
    """

    url: str
    digest: str
    allowed_urls: tuple[str, ...]
    cache: Path
    device: Device
    threads: int
    instances: int
    precision: Precision
    cuda_graphs: bool
    memory_limit_mib: int | None
    host: str
    advertise_host: str
    unix_socket: Path | None
    max_batch_rows: int | None
    max_queue_delay_ms: float
    max_queued_rows: int
    drain_s: float
    log_level: str
    otlp_url: str | None = None
    argv: tuple[str, ...] = ()

    @classmethod
    def from_argv(cls, argv: Sequence[str] | None = None) -> Self:
        parser = argparse.ArgumentParser(prog="python -m online.inference.worker", description=__doc__)
        parser.add_argument("--url", required=True, help="the bundle: a folder or any fsspec URL")
        parser.add_argument("--digest", required=True, help="sha256 of its manifest")
        parser.add_argument("--allowed-url", dest="allowed_urls", action="append", default=[], help="a prefix")
        parser.add_argument("--cache", type=Path, required=True, help="folder for copies of bundles")
        parser.add_argument("--device", type=parse_device, default=parse_device("cpu"))
        parser.add_argument("--threads", type=int, default=1, help="of torch, all instances together")
        parser.add_argument("--instances", type=int, default=1, help="copies of the model that share the queue")
        parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
        parser.add_argument("--cuda-graphs", action="store_true", help="capture batches of 1, 2, 4 ... rows")
        parser.add_argument("--memory-limit-mib", type=int, help="for weights and activations")
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--advertise-host", default="127.0.0.1", help="by which clients reach this host")
        parser.add_argument("--unix-socket", type=Path)
        parser.add_argument("--max-batch-rows", type=int)
        parser.add_argument("--max-queue-delay-ms", type=float, default=0.0, help="applies to an idle device only")
        parser.add_argument("--max-queued-rows", type=int, default=2048)
        parser.add_argument("--drain-s", type=float, default=10.0)
        parser.add_argument("--log-level", default="INFO")
        parser.add_argument("--otlp-url", help="receiver of spans")
        words = tuple(sys.argv[1:] if argv is None else argv)
        given = vars(parser.parse_args(words))
        return cls(**{**given, "allowed_urls": tuple(given["allowed_urls"])}, argv=words)
