"""`python -m tests.bench.live.bare_loop BUNDLE`: the heavy bundle in a bare torch loop, one thread.

Says what it expects of the rows as a first line of JSON; then, for each line with a number of seconds, runs
batches so long and says how many rows it did.
"""

import sys
import time
from pathlib import Path

from runtime.program import load_program, set_threads
from schemas.bundle import read_folder
from tests.bench.known import MAX_BATCH_ROWS
from tests.bench.live.rows import heavy_rows, say


def main() -> int:
    set_threads(1)
    folder = Path(sys.argv[1])
    program = load_program(folder, read_folder(folder).manifest)
    rows = heavy_rows()
    batches = [{"numbers": rows[at : at + MAX_BATCH_ROWS]} for at in range(0, len(rows), MAX_BATCH_ROWS)]
    say({"expected": [row[0] for batch in batches for row in program(batch).tolist()]})
    for line in sys.stdin:
        began_s, done = time.perf_counter(), 0
        while (now_s := time.perf_counter()) < began_s + float(line):
            program(batches[done % len(batches)])
            done += 1
        say({"rows_per_s": done * MAX_BATCH_ROWS / (now_s - began_s), "batch_ms": 1e3 * (now_s - began_s) / done})
    return 0


if __name__ == "__main__":
    sys.exit(main())
