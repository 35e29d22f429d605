"""`python -m tests.bench.load FOLDER`: one run of the generator in a process of its own. Started by `client.py`.

Everything is read before the first request and written after the last answer, so that nothing else costs time
while it runs.
"""

import gc
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.load.closed import ClosedLoop
from tests.bench.load.files import Order, Report, read_order, write_report
from tests.bench.load.generator import Generator, Sent


def main(argv: Sequence[str] | None = None) -> int:
    folder = Path((argv or sys.argv[1:])[0])
    order = read_order(folder)
    run = _prepared(order)
    gc.collect()
    gc.disable()  # a collection would make requests late, and a run makes little garbage
    began_s, began_cpu_s = time.perf_counter(), _cpu_s()
    sent = run()
    wall_s, cpu_s = time.perf_counter() - began_s, _cpu_s() - began_cpu_s
    write_report(folder, Report.of(sent, cpu_share=cpu_s / wall_s))
    return 0


def _prepared(order: Order) -> Callable[[], Sent]:
    if order.closed_s is None:
        generator = Generator(order.target, order.at_s.tolist(), order.requests)
        return lambda: generator.run(order.patience_s)
    loop, closed_s = ClosedLoop(order.target, order.requests), order.closed_s
    return lambda: loop.run(closed_s, order.patience_s)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
