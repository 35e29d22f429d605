"""Nothing but the runner loads torch: not the node, and not the batcher or the wire of a worker."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("online.inference.__main__", ["torch", "runtime", "online.inference.worker", "pyspark", "online.api"]),
        ("online.inference.worker.__main__", ["torch", "runtime", "pyspark", "fastapi", "redis", "online.api"]),
        ("online.inference.worker.batcher", ["torch", "asyncio", "fsspec"]),
        ("online.inference.worker.batch_policy", ["torch", "asyncio"]),
    ],
)
def test_an_entry_point_loads_nothing_that_is_not_its_own(module: str, forbidden: list[str]) -> None:
    code = f"import sys, {module}; print(*(name for name in {forbidden} if name in sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
