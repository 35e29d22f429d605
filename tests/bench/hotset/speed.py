"""How long a choice over a large log takes: generated Parquet, the command itself, on Spark started before."""

import logging
import resource
import tempfile
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from batch_scoring.hotset.__main__ import main as hotset_main
from batch_scoring.session import spark_session

log = logging.getLogger(__name__)

_DAYS = 14
_FILE_ROWS = 2_000_000
_EXPONENT = 1.1
_BEGIN_US = 1_760_000_000_000_000


def choose_s(rows: int, entities: int, seed: int) -> float:
    """Seconds of `choose`, Spark's start left out."""
    with tempfile.TemporaryDirectory(prefix="hotset-bench-") as name:
        folder = Path(name) / "log"
        log.info("writing %d rows for %d entities", rows, entities)
        _write(folder, rows, entities, seed)
        log.info("starting Spark")
        with spark_session("bench-hotset") as spark:
            spark.range(1000).selectExpr("sum(id)").collect()
            began_s = time.monotonic()
            call = ["choose", "--log", str(folder), "--engine", "spark", "--json"]
            with redirect_stdout(StringIO()):
                status = hotset_main([*call, "--out", str(Path(name) / "out")])
            wall_s = time.monotonic() - began_s
        assert status == 0, f"choose ended with status {status}"
        chosen = pq.read_metadata(Path(name) / "out" / "hotset.parquet").num_rows
    grown_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    log.info("chose %d entities in %.1f s; Python took %.0f MB at most", chosen, wall_s, grown_mb)
    return wall_s


def _write(folder: Path, rows: int, entities: int, seed: int) -> None:
    folder.mkdir()
    random = np.random.default_rng(seed)
    weights = np.cumsum(np.arange(1, entities + 1, dtype=np.float64) ** -_EXPONENT)
    by_rank = random.permutation(entities)
    names = pa.array([f"e{number:07d}" for number in range(entities)])
    span_us = _DAYS * 86_400_000_000
    for place, begin in enumerate(range(0, rows, _FILE_ROWS)):
        count = min(_FILE_ROWS, rows - begin)
        codes = by_rank[np.searchsorted(weights, random.random(count) * weights[-1])]
        times_us = _BEGIN_US + ((begin + np.arange(count)) * (span_us / rows)).astype(np.int64)
        columns = {"time": pa.array(times_us, pa.timestamp("us", tz="UTC")), "entity": names.take(pa.array(codes))}
        pq.write_table(pa.table(columns), folder / f"part-{place}.parquet")
