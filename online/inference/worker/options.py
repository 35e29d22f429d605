"""What a worker is told by its node: command line arguments, since each worker serves one bundle."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from online.inference.devices import Device, parse_device


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """`unix_socket` or else an ephemeral port of `host`; `max_batch_rows` may only lower the bundle's own."""

    url: str
    digest: str
    allowed_urls: tuple[str, ...]
    cache: Path
    device: Device
    threads: int
    host: str
    advertise_host: str
    unix_socket: Path | None
    max_batch_rows: int | None
    max_queue_delay_ms: float
    max_queued_rows: int
    drain_s: float
    log_level: str

    @classmethod
    def from_argv(cls, argv: Sequence[str] | None = None) -> Self:
        parser = argparse.ArgumentParser(prog="python -m online.inference.worker", description=__doc__)
        parser.add_argument("--url", required=True, help="the bundle: a folder or any fsspec URL")
        parser.add_argument("--digest", required=True, help="sha256 of its manifest")
        parser.add_argument("--allowed-url", dest="allowed_urls", action="append", default=[], help="a prefix")
        parser.add_argument("--cache", type=Path, required=True, help="folder for copies of bundles")
        parser.add_argument("--device", type=parse_device, default=parse_device("cpu"))
        parser.add_argument("--threads", type=int, default=1, help="of one forward")
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--advertise-host", default="127.0.0.1", help="by which clients reach this host")
        parser.add_argument("--unix-socket", type=Path)
        parser.add_argument("--max-batch-rows", type=int)
        parser.add_argument("--max-queue-delay-ms", type=float, default=0.0, help="applies to an idle device only")
        parser.add_argument("--max-queued-rows", type=int, default=2048)
        parser.add_argument("--drain-s", type=float, default=10.0)
        parser.add_argument("--log-level", default="INFO")
        given = vars(parser.parse_args(argv))
        return cls(**{**given, "allowed_urls": tuple(given["allowed_urls"])})
