"""Arrow schemas of all that is written as Parquet: scores, rejects, hot sets, the request log, drift, parity.

One declared schema for every file: a column that is all null in one hour keeps its type. Feature files take their
columns from a manifest (`features_schema`).
"""

from collections.abc import Iterable

import pyarrow as pa

from schemas.manifest import CategoryFeature, Feature, TextFeature
from schemas.names import STAGES

REQUEST_LOG_VERSION = 1
DRIFT_VERSION = 1
PARITY_VERSION = 1

_TIME = pa.timestamp("us", tz="UTC")

SCORES = pa.schema(
    [
        pa.field("entity", pa.string(), nullable=False),
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("packed", pa.binary(), nullable=False),
    ]
)
REJECTS = pa.schema(
    [
        pa.field("entity", pa.string()),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
    ]
)
HOT_SET = pa.schema(
    [
        pa.field("entity", pa.string(), nullable=False),
        pa.field("weight", pa.float64(), nullable=False),
    ]
)
SNAPSHOT = pa.schema(
    [
        pa.field("key", pa.uint64(), nullable=False),
        pa.field("record", pa.binary(), nullable=False),
    ]
)
# One row a feature or output. `counts` lie between `edges` (numbers) or beside `values` (text).
BASELINE = pa.schema(
    [
        pa.field("side", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("nulls", pa.int64(), nullable=False),
        pa.field("edges", pa.list_(pa.float64())),
        pa.field("values", pa.list_(pa.string())),
        pa.field("counts", pa.list_(pa.int64())),
        pa.field("mean", pa.float64()),
        pa.field("deviation", pa.float64()),
    ]
)

REQUEST_LOG = pa.schema(
    [
        pa.field("time", _TIME, nullable=False),
        pa.field("request_id", pa.string(), nullable=False),
        pa.field("entity", pa.string()),
        pa.field("version", pa.string()),
        pa.field("generation", pa.string()),
        pa.field("experiment", pa.string()),
        pa.field("arm", pa.string()),
        pa.field("source", pa.string()),
        pa.field("miss_reason", pa.string()),
        pa.field("status", pa.int16(), nullable=False),
        pa.field("code", pa.string()),
        pa.field("label", pa.string()),
        pa.field("confidence", pa.float32()),
        pa.field("age_ms", pa.int64()),
        pa.field("total_us", pa.int32(), nullable=False),
        # Null where the answer did not pass through the stage.
        *(pa.field(f"{stage}_us", pa.int32()) for stage in STAGES),
        pa.field("batch_rows", pa.int32()),
        pa.field("is_caller_features", pa.bool_(), nullable=False),
        pa.field("inputs", pa.string()),
        pa.field("outputs", pa.list_(pa.float32())),
    ],
    metadata={"hotset.request_log": str(REQUEST_LOG_VERSION)},
)

# One row a hit that was to be computed again. `kind` and `skipped` (why it was not compared) are those of
# `schemas.parity`; exactly one is given. `tolerances`: how far the worst output, `output`, is off, as a multiple
# of what the manifest allows. Values are not logged: some outputs are never to be.
PARITY = pa.schema(
    [
        pa.field("time", _TIME, nullable=False),
        pa.field("request_id", pa.string(), nullable=False),
        pa.field("entity", pa.string()),
        pa.field("version", pa.string()),
        pa.field("generation", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("skipped", pa.string()),
        pa.field("tolerances", pa.float32()),
        pa.field("output", pa.string()),
    ],
    metadata={"hotset.parity": str(PARITY_VERSION)},
)

# One row a population (`hits`, `tail`) and feature or output of a window. `counts` lie beside `baseline_counts`,
# in the order of `edges` or `values`. Statistics are null where nothing can be compared; `jensen_shannon` is in
# bits.
DRIFT = pa.schema(
    [
        pa.field("window_begin", _TIME, nullable=False),
        pa.field("window_end", _TIME, nullable=False),
        pa.field("version", pa.string(), nullable=False),
        pa.field("population", pa.string(), nullable=False),
        pa.field("side", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("level", pa.string(), nullable=False),
        pa.field("kinds", pa.list_(pa.string()), nullable=False),
        pa.field("reasons", pa.list_(pa.string()), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("effective_rows", pa.float64(), nullable=False),
        pa.field("nulls", pa.int64(), nullable=False),
        pa.field("absent", pa.int64(), nullable=False),
        pa.field("withheld", pa.int64(), nullable=False),
        pa.field("outside", pa.int64(), nullable=False),
        pa.field("new_values", pa.list_(pa.string()), nullable=False),
        pa.field("new_counts", pa.list_(pa.int64()), nullable=False),
        pa.field("psi", pa.float64()),
        pa.field("psi_threshold", pa.float64()),
        pa.field("jensen_shannon", pa.float64()),
        pa.field("jensen_shannon_threshold", pa.float64()),
        pa.field("freedom", pa.int32()),
        pa.field("baseline_rows", pa.int64(), nullable=False),
        pa.field("baseline_nulls", pa.int64(), nullable=False),
        pa.field("edges", pa.list_(pa.float64())),
        pa.field("values", pa.list_(pa.string())),
        pa.field("baseline_counts", pa.list_(pa.int64()), nullable=False),
        pa.field("counts", pa.list_(pa.int64()), nullable=False),
    ],
    metadata={"hotset.drift": str(DRIFT_VERSION)},
)


def features_schema(features: Iterable[Feature]) -> pa.Schema:
    """entity, as_of and a column for each feature: float32 numbers (Spark's float), or text."""
    return pa.schema(
        [
            pa.field("entity", pa.string(), nullable=False),
            pa.field("as_of", _TIME, nullable=False),
            *(
                pa.field(
                    feature.name,
                    pa.string() if isinstance(feature, CategoryFeature | TextFeature) else pa.float32(),
                )
                for feature in features
            ),
        ]
    )
