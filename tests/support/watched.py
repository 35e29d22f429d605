"""Drift results and a log of compared hits for tests of the site: of planted samples, written as in service."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from batch_scoring.drift.histograms import Baseline, Histogram, histogram, tally
from batch_scoring.drift.results import report_of, results_url, write_findings, write_report
from batch_scoring.drift.rules import Rules, Sample, judge
from batch_scoring.drift.samples import Counts
from batch_scoring.hotset.log_files import LogFiles
from schemas.arrow import PARITY
from schemas.drift import DriftReport
from schemas.names import parity_hour_path

TRAINED_ROWS = 20_000
AIRLINES = ("AA", "DL", "UA")


def baselines() -> list[Baseline]:
    """Inputs `distance` (20 bins), `airline` and `gate`; output `late` (10 bins)."""
    edges = tuple(float(edge) for edge in np.linspace(0, 2000, 21))
    late = tuple(float(edge) for edge in np.linspace(0, 1, 11))
    return [
        Baseline("input", "distance", "number", TRAINED_ROWS, 0, edges, (), (TRAINED_ROWS // 20,) * 20),
        Baseline("input", "airline", "category", TRAINED_ROWS, 0, (), AIRLINES, (10_000, 6_000, 4_000)),
        Baseline("input", "gate", "number", TRAINED_ROWS, 400, (0.0, 50.0, 99.0), (), (9_800, 9_800)),
        Baseline("output", "late", "number", TRAINED_ROWS, 0, late, (), (TRAINED_ROWS // 10,) * 10),
    ]


def sample(rows: int, seed: int, shift: float = 0.0, newcomers: int = 0, has_gates: bool = True) -> Sample:
    """As the baselines, but for distances that are `shift` longer, and rows of an airline unknown to them."""
    random = np.random.default_rng(seed)
    airlines: list[str | None] = random.choice(AIRLINES, rows - newcomers, p=[0.5, 0.3, 0.2]).tolist()
    columns: dict[str, Any] = {
        "distance": np.minimum(random.uniform(0, 2000, rows) + shift, 2000.0),
        "airline": [*airlines, *["NK"] * newcomers],
        "gate": np.where(random.random(rows) < 0.02, np.nan, random.uniform(0, 99, rows)),
        "late": random.random(rows),
    }
    found = {one.key: histogram(one, tally(one, columns[one.name])) for one in baselines()}
    if not has_gates:
        found["input", "gate"] = Histogram(np.zeros(2, np.int64), absent=rows)
    return Sample(rows, rows, 1.0, found)


def write_drift(
    data: Path, model: str, end: datetime, samples: Mapping[str, Sample], version: str = "7"
) -> DriftReport:
    """The results of the week before `end`, as the job judges and writes them."""
    window = (end - timedelta(days=7), end)
    findings = judge(baselines(), samples, {}, is_whole_weeks=True, rules=Rules())
    counts = Counts({"window": samples}, Counter({"6": 11}), 0, {})
    files = LogFiles(str(data), good={})
    report = report_of(model, version, window, findings, counts, files, Rules())
    url = results_url(str(data), model, window)
    write_findings(url, window, version, findings)
    write_report(url, report)
    return report


def compared_table(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """Rows of the parity log; what a row does not say is null."""
    complete = [{name: row.get(name) for name in PARITY.names} for row in rows]
    return pa.Table.from_pylist(complete, schema=PARITY)


def write_compared(data: Path, model: str, rows: Sequence[Mapping[str, object]], name: str = "a") -> Path:
    """One file, in the hour of the first row."""
    moment = rows[0]["time"]
    assert isinstance(moment, datetime)
    folder = data / parity_hour_path(model, moment)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.parquet"
    pq.write_table(compared_table(rows), path)
    return path


def compared_row(time: datetime, number: int, **values: object) -> dict[str, object]:
    row: dict[str, object] = {"time": time, "request_id": f"r{number}", "entity": f"e{number}", "version": "7"}
    return row | {"generation": "20261128T0200Z-1", "kind": "equal", "tolerances": 0.0, "output": "late"} | values
