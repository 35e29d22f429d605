"""From whatever the feature query returns to the declared columns: types, ids, moments, duplicates."""

import logging
from datetime import datetime

import numpy as np
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StringType, TimestampType

from batch_scoring.runs import Refused
from schemas.manifest import CategoryFeature, Feature, Manifest, TextFeature
from schemas.names import MAX_ENTITY_BYTES

LOG = logging.getLogger(__name__)
_MAX_FLOAT32 = float(np.finfo(np.float32).max)
# Beside the declared columns: why a row is no row of the table, or null.
REASON = "_reason"


def conform(found: DataFrame, manifest: Manifest, as_of: datetime) -> DataFrame:
    """The query's rows with the columns of `features_schema`, and `REASON`: null for exactly one row an entity.

    Columns that the manifest does not name are left out. Of several rows for one entity the one whose features
    come first, compared as JSON text, is kept: the same one however often it is computed.

    Raises:
        Refused: a column is missing, or of a type that the feature cannot have.
    """
    _check_columns(found, manifest)
    features = [_typed(feature).alias(feature.name) for feature in manifest.features]
    # Text that is no UTF-8 can be neither joined with a log nor asked for: it is shown with replacements.
    typed = found.select(
        F.make_valid_utf8("entity").alias("entity"), "as_of", *features, _fault(as_of).alias("_fault")
    )
    order = [F.to_json(F.struct(*manifest.feature_names))] if manifest.feature_names else [F.lit(0)]
    # Only sound rows compete: a row that is rejected anyway must not push out one that is not.
    place = F.row_number().over(Window.partitionBy("entity", F.col("_fault").isNull()).orderBy(*order))
    reason = F.coalesce("_fault", F.when(F.col("_place") > 1, "duplicate: another row of the entity was kept"))
    return typed.withColumn("_place", place).withColumn(REASON, reason).drop("_place", "_fault")


def _fault(as_of: datetime) -> Column:
    """Why a row cannot be of an entity as of this moment, or null."""
    entity = F.col("entity")
    moment = F.timestamp_micros(F.lit(int(as_of.timestamp() * 1_000_000)))
    return (
        F.when(entity.isNull() | (entity == ""), "entity is empty")
        .when(~F.is_valid_utf8(entity), "entity is not valid UTF-8")
        .when(F.octet_length(entity) > MAX_ENTITY_BYTES, f"entity is over {MAX_ENTITY_BYTES} bytes")
        .when(F.col("as_of").isNull() | (F.col("as_of") != moment), "as_of is another moment than the night's")
    )


def _typed(feature: Feature) -> Column:
    """Numbers as `schemas.features.canonical_number` takes them: too large for float32 is infinite."""
    column = F.col(feature.name)
    if isinstance(feature, CategoryFeature | TextFeature):
        return F.make_valid_utf8(column)
    wide = column.cast("double")
    too_large = (F.abs(wide) > F.lit(_MAX_FLOAT32)) & ~F.isnan(wide)
    return F.when(too_large, F.signum(wide) * F.lit(float("inf"))).otherwise(wide).cast("float")


def _check_columns(found: DataFrame, manifest: Manifest) -> None:
    types = {field.name: field.dataType for field in found.schema}
    wanted = ["entity", "as_of", *manifest.feature_names]
    if missing := [name for name in wanted if name not in types]:
        raise Refused(
            f"the feature query lacks the columns {', '.join(missing)}: it returns {', '.join(types)},"
            f" and the model {manifest.name} needs entity, as_of and {', '.join(manifest.feature_names)}"
        )
    wrong = []
    if not isinstance(types["entity"], StringType):
        wrong.append(f"entity is {types['entity'].simpleString()}, not text: numbers lose leading zeros")
    if not isinstance(types["as_of"], TimestampType):
        wrong.append(f"as_of is {types['as_of'].simpleString()}, not a timestamp")
    for feature in manifest.features:
        kind = types[feature.name]
        if isinstance(feature, CategoryFeature | TextFeature):
            if not isinstance(kind, StringType):
                wrong.append(f"{feature.name} is {kind.simpleString()}, and the model takes text")
        elif not isinstance(kind, NumericType):
            wrong.append(f"{feature.name} is {kind.simpleString()}, and the model takes a number")
    if wrong:
        raise Refused(f"the feature query's columns do not fit: {'; '.join(wrong)}")
    if extra := sorted(types.keys() - set(wanted)):
        LOG.info("columns of the feature query that are no feature of %s: %s", manifest.name, ", ".join(extra))
