"""What goes to the generator's process and comes back from it: two files in a folder."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np

from tests.bench.load.arrivals import Seconds
from tests.bench.load.connection import Target
from tests.bench.load.generator import Sent

_ORDER, _REPORT = "order.npz", "report.npz"


@dataclass(frozen=True)
class Order:
    """`requests[i]`, whole HTTP requests, are due at `at_s[i]`; all is given up `patience_s` after the last.

    With `closed_s` the loop is closed for so long: `at_s` is empty, each of the target's connections sends the
    next request when its last is answered, and after the last request comes the first again.
    """

    target: Target
    at_s: Seconds
    requests: Sequence[bytes]
    patience_s: float
    closed_s: float | None = None

    @property
    def longest_s(self) -> float:
        """From the first request until all is answered or given up."""
        lasts_s = float(self.at_s[-1]) if self.closed_s is None else self.closed_s
        return lasts_s + self.patience_s


@dataclass(frozen=True)
class Report:
    """By request: (n,) seconds from the start, inf for never, and the answer's bytes, empty for none.

    Of a closed loop in the order sent, so that `requests[i % len(requests)]` is the i-th.
    `cpu_share`: of one core, by the generator while it ran. `began_s`: as in `Sent`; 0 of a closed loop.
    """

    sent_s: Seconds
    done_s: Seconds
    answers: Sequence[bytes]
    connections: int
    cpu_share: float
    began_s: float = 0.0

    @classmethod
    def of(cls, sent: Sent, cpu_share: float) -> Self:
        return cls(
            np.array(sent.sent_s), np.array(sent.done_s), sent.answers, sent.connections, cpu_share, sent.began_s
        )


def write_order(folder: Path, order: Order) -> None:
    blob, lengths = _packed(order.requests)
    head = json.dumps({"target": asdict(order.target), "patience_s": order.patience_s, "closed_s": order.closed_s})
    np.savez(folder / _ORDER, at_s=order.at_s, blob=blob, lengths=lengths, head=np.array(head))


def read_order(folder: Path) -> Order:
    with np.load(folder / _ORDER) as file:
        head = json.loads(str(file["head"]))
        requests = _unpacked(file["blob"], file["lengths"])
        return Order(Target(**head["target"]), file["at_s"], requests, head["patience_s"], head["closed_s"])


def write_report(folder: Path, report: Report) -> None:
    blob, lengths = _packed(report.answers)
    numbers = np.array([report.connections, report.cpu_share, report.began_s])
    np.savez(
        folder / _REPORT,
        sent_s=report.sent_s,
        done_s=report.done_s,
        blob=blob,
        lengths=lengths,
        numbers=numbers,
    )


def read_report(folder: Path) -> Report:
    with np.load(folder / _REPORT) as file:
        connections, cpu_share, began_s = file["numbers"].tolist()
        answers = _unpacked(file["blob"], file["lengths"])
        return Report(file["sent_s"], file["done_s"], answers, int(connections), cpu_share, began_s)


def _packed(parts: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
    return np.frombuffer(b"".join(parts), dtype=np.uint8), np.array([len(part) for part in parts], dtype=np.int64)


def _unpacked(blob: np.ndarray, lengths: np.ndarray) -> list[bytes]:
    data, ends = blob.tobytes(), np.cumsum(lengths).tolist()
    return [data[end - length : end] for end, length in zip(ends, lengths.tolist(), strict=True)]
