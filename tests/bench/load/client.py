"""Has a schedule of requests sent by the generator's process, and gives what came back."""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.load.files import Order, Report, read_report, write_order
from tests.support.api_process import ROOT

_START_S = 30.0


def offer(order: Order) -> Report:
    """Blocks for the schedule's length.

    Raises:
        subprocess.SubprocessError: the generator failed, or did not end in time.
    """
    with tempfile.TemporaryDirectory(prefix="hotset-load-") as name:
        write_order(Path(name), order)
        longest_s = order.longest_s + _START_S
        words = [sys.executable, "-m", "tests.bench.load", name]
        # A session of its own: a Ctrl-C in the terminal is for whoever waits here, who then ends it.
        subprocess.run(words, cwd=ROOT, check=True, timeout=longest_s, start_new_session=True)
        return read_report(Path(name))
