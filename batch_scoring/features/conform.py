"""From whatever the feature query returns to the declared columns: types, ids, duplicates."""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import FloatType, IntegralType, NumericType, StringType, TimestampType

from batch_scoring.runs import Refused
from schemas.manifest import CategoryFeature, Manifest
from schemas.names import MAX_ENTITY_BYTES


@dataclass(frozen=True, slots=True)
class Conformed:
    """`rows`: entity, as_of and the features, one row an entity. `rejects`: entity, reason, detail."""

    rows: DataFrame
    rejects: DataFrame


def conform(found: DataFrame, manifest: Manifest) -> Conformed:
    """Takes the manifest's columns out of the query's result; other columns are left out.

    Of several rows for one entity the one whose features come first, compared as text, is kept: the same one
    however often it is computed. The others, and ids that cannot be, are rejected and counted.

    Raises:
        Refused: a column is missing, or of a type that the feature cannot have.
    """
    _check_columns(found, manifest)
    columns = [
        F.col("entity"),
        F.col("as_of"),
        *(_typed(feature.name, feature.type) for feature in manifest.features),
    ]
    typed = found.select(*columns)
    reason = (
        F.when(F.col("entity").isNull() | (F.col("entity") == ""), "entity is empty")
        .when(F.octet_length("entity") > MAX_ENTITY_BYTES, f"entity is over {MAX_ENTITY_BYTES} bytes")
        .otherwise(None)
    )
    order = [F.to_json(F.struct(*manifest.feature_names))] if manifest.feature_names else [F.lit(0)]
    place = F.row_number().over(Window.partitionBy("entity").orderBy(*order))
    judged = typed.withColumn("_place", place).withColumn(
        "_reason", F.coalesce(reason, F.when(F.col("_place") > 1, "duplicate"))
    )
    rows = judged.where(F.col("_reason").isNull()).drop("_place", "_reason")
    rejects = judged.where(F.col("_reason").isNotNull()).select(
        "entity", F.col("_reason").alias("reason"), F.lit("the feature query returned it").alias("detail")
    )
    return Conformed(rows, rejects)


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
        if isinstance(feature, CategoryFeature):
            if not isinstance(kind, StringType):
                wrong.append(f"{feature.name} is {kind.simpleString()}, and the model takes text")
        elif not isinstance(kind, (NumericType, IntegralType)):
            wrong.append(f"{feature.name} is {kind.simpleString()}, and the model takes a number")
    if wrong:
        raise Refused(f"the feature query's columns do not fit: {'; '.join(wrong)}")


def _typed(name: str, kind: str) -> Column:
    column = F.col(name)
    return column if kind == "category" else column.cast(FloatType()).alias(name)
