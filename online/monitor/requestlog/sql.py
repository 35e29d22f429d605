"""The SQL over request-log rows: what is counted of them, and how rows of any schema version become one.

Counts are by minute; latencies are counts in bins 1 % wide, by slots of a minute while they are young and longer
later (`parts.py`). Both are a few thousand rows an hour, however many requests it had, so that a page never reads
the log itself. `TRY_CAST` makes an older schema's column (int64, double, all null) the declared type; what cannot
be cast, such as NaN microseconds, is null.
"""

from math import exp

import pyarrow as pa

from schemas.arrow import REQUEST_LOG
from schemas.names import STAGES

ERROR = "error"
# A row of another system's log: it was asked there, and nothing of ours answered it.
IMPORTED = "imported"
TOTAL = "total"
# Confidences stand among the stages' latencies, in bins of a hundredth: they are kept, coarsened and merged alike.
CONFIDENCE = "confidence"
CONFIDENCE_BINS = 100
# So do ages of answers, in bins 1 % wide of seconds.
AGE = "age"
BINS_PER_E = 100
LATEST_COLUMNS = (
    "request_id", "entity", "version", "generation", "source", "miss_reason", "status", "code", "label",
    "confidence", "total_us",
)  # fmt: skip

_TIMED = ("total_us", *(f"{stage}_us" for stage in STAGES))
_IS_IMPORTED = "source IS NULL AND TRY_CAST(status AS SMALLINT) = 200"
_TIME_US = "epoch_us(TRY_CAST(time AS TIMESTAMPTZ))"
_NARROW = ", ".join(
    [
        f"{_TIME_US} AS t",
        f"if({_IS_IMPORTED}, '{IMPORTED}', coalesce(CAST(source AS VARCHAR), '{ERROR}')) AS source",
        "CAST(version AS VARCHAR) AS version",
        "CAST(miss_reason AS VARCHAR) AS reason",
        "CAST(code AS VARCHAR) AS code",
        "TRY_CAST(status AS SMALLINT) AS status",
        *(f"TRY_CAST({column} AS INTEGER) AS {column}" for column in _TIMED),
    ]
)
# t is null where a row has no usable time: it is counted with a null minute.
FOLD_MINUTES = f"""
SELECT part, CAST(t // 60000000 AS INTEGER) AS minute, source, version, reason, code, status,
  count(*) AS requests, max(t) AS newest_us
FROM (SELECT part, {_NARROW} FROM chunk) GROUP BY ALL
"""
FOLD_LATENCIES = f"""
SELECT part, CAST(t // 60000000 // $slot * $slot AS INTEGER) AS minute, source, column_name AS stage,
  CAST(floor(ln(greatest(us, 1)) * {BINS_PER_E}) AS SMALLINT) AS bin, count(*) AS requests
FROM (UNPIVOT (SELECT part, {_NARROW} FROM chunk)
  ON {", ".join(_TIMED)} INTO NAME column_name VALUE us)
WHERE t IS NOT NULL AND source <> '{IMPORTED}' GROUP BY ALL
UNION ALL
SELECT part, CAST(t // 60000000 // $slot * $slot AS INTEGER) AS minute, source, '{CONFIDENCE}' AS stage,
  CAST(least(floor(share * {CONFIDENCE_BINS}), {CONFIDENCE_BINS - 1}) AS SMALLINT) AS bin, count(*) AS requests
FROM (SELECT part, {_NARROW}, TRY_CAST(confidence AS DOUBLE) AS share FROM chunk)
WHERE t IS NOT NULL AND source <> '{IMPORTED}' AND share BETWEEN 0 AND 1 GROUP BY ALL
UNION ALL
SELECT part, CAST(t // 60000000 // $slot * $slot AS INTEGER) AS minute, source, '{AGE}' AS stage,
  CAST(floor(ln(greatest(age_ms // 1000, 1)) * {BINS_PER_E}) AS SMALLINT) AS bin, count(*) AS requests
FROM (SELECT part, {_NARROW}, TRY_CAST(age_ms AS BIGINT) AS age_ms FROM chunk)
WHERE t IS NOT NULL AND source <> '{IMPORTED}' AND age_ms BETWEEN 0 AND 2000000000000 GROUP BY ALL
"""
LATEST = f"""
SELECT {_TIME_US} AS t, {", ".join(LATEST_COLUMNS)} FROM chunk
WHERE t IS NOT NULL AND NOT coalesce({_IS_IMPORTED}, false) ORDER BY t DESC LIMIT $limit
"""

EMPTY = REQUEST_LOG.empty_table()


def files_view(paths: list[str]) -> str:
    """The view `chunk` over Parquet files, with every column of the present schema and `part` from `chunk_files`.

    Hive types are off: folder names are no columns here, and the model is known from the folder.
    """
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    return f"""
    CREATE OR REPLACE TEMP VIEW chunk AS SELECT * EXCLUDE (filename) FROM (
      SELECT *, NULL::VARCHAR AS filename FROM template UNION ALL BY NAME
      SELECT * FROM read_parquet([{listed}], union_by_name = true, hive_partitioning = false, filename = true))
    LEFT JOIN chunk_files USING (filename)"""


# Over the registered Arrow table `stream_rows`.
STREAM_VIEW = """
CREATE OR REPLACE TEMP VIEW chunk AS SELECT *, 0 AS part FROM (
  SELECT * FROM template UNION ALL BY NAME SELECT * FROM stream_rows)"""


def bin_ms(number: int) -> float:
    """The middle of a bin, in milliseconds; within half a per cent of every value in it."""
    return exp((number + 0.5) / BINS_PER_E) / 1e3


def bin_s(number: int) -> float:
    """The middle of an age's bin, in seconds."""
    return bin_ms(number) * 1e3


def without_outputs(table: pa.Table) -> pa.Table:
    """Sampled inputs and outputs are never shown here, and lists are dear to copy."""
    return table.drop_columns([name for name in ("inputs", "outputs") if name in table.column_names])
