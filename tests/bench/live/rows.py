"""What the two processes share in which the CPU model's throughput is measured. No torch: one does without."""

import json
import sys

import numpy as np
import numpy.typing as npt

from tests.bench.known import MAX_BATCH_ROWS

HEAVY_WIDTH = 64
# One batch executes, the next is decoded, a third is on its way.
OUTSTANDING_ROWS = 3 * MAX_BATCH_ROWS


def heavy_rows(count: int = OUTSTANDING_ROWS) -> npt.NDArray[np.float32]:
    """(count, 64) float32: inputs of the heavy model, always the same."""
    return np.random.default_rng(0).normal(size=(count, HEAVY_WIDTH)).astype(np.float32)


def say(document: dict[str, object]) -> None:
    """One line of JSON to whoever started this process."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()
