"""Samples of the request log, counted in Spark: by period (the window, the same hours before) and population."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_scoring.drift.counting import COUNTED_SCHEMA, RECORDS, ROWS, CountTask, count_rows
from batch_scoring.drift.histograms import Baseline, Histogram, histogram
from batch_scoring.drift.rules import Sample
from batch_scoring.drift.sampled import SAMPLED_SCHEMA, WINDOW, Period, read_sampled
from batch_scoring.drift.statistics import effective_rows
from batch_scoring.files import exists, spark_url
from batch_scoring.hotset.log_files import LogFiles
from schemas.drift import HITS
from schemas.names import parse_generation, run_path

# Most files have a few sampled rows, so that a task for each would be mostly its start.
_FILES_OF_A_TASK = 8
_TASKS_OF_A_CORE = 4


@dataclass(frozen=True, slots=True)
class Counts:
    """
    Attributes:
        samples: by period, then population.
        of_others: sampled rows of the window that another version answered, by version.
        joined: hits that got their inputs from the features of their night.
        damaged: what is wrong with files that could not be read, by address.
    """

    samples: Mapping[str, Mapping[str, Sample]]
    of_others: Mapping[str, int]
    joined: int
    damaged: Mapping[str, str]


def count_samples(
    spark: SparkSession, files: LogFiles, periods: Sequence[Period], task: CountTask, data_url: str
) -> Counts:
    """Counts the sampled rows of one version; hits without inputs get those their answer was computed from."""
    if not files.good:
        return Counts({}, {}, 0, {})
    paths = spark.createDataFrame([(path,) for path in sorted(files.good)], "path string")
    most = spark.sparkContext.defaultParallelism * _TASKS_OF_A_CORE
    paths = paths.repartition(min(most, -(-len(files.good) // _FILES_OF_A_TASK)))
    rows = paths.mapInArrow(lambda batches: read_sampled(batches, periods), SAMPLED_SCHEMA).persist()
    try:
        found = _overview(rows, task.manifest.version)
        own = rows.where(F.col("error").isNull() & F.col("version").eqNullSafe(task.manifest.version))
        complete = _with_night_features(spark, own, found.lacking, task, data_url).persist()
        try:
            samples, joined = _samples(complete, task)
        finally:
            complete.unpersist()
    finally:
        rows.unpersist()
    return Counts(samples, found.of_others, joined, found.damaged)


@dataclass(slots=True)
class _Overview:
    """`lacking`: generations that answered hits of ours without inputs."""

    damaged: dict[str, str] = field(default_factory=dict)
    of_others: Counter[str] = field(default_factory=Counter)
    lacking: set[str] = field(default_factory=set)


def _overview(rows: DataFrame, version: str) -> _Overview:
    """In one pass, since each costs more to begin than to do."""
    damaged_file = F.when(F.col("error").isNotNull(), F.col("entity")).alias("file")
    groups = rows.groupBy(
        "period", "version", "generation", "error", damaged_file, _is_lacking().alias("is_lacking")
    )
    found = _Overview()
    for row in groups.count().collect():
        if row.error is not None:
            found.damaged[row.file] = row.error
        elif row.version != version:
            found.of_others[row.version or "none"] += row["count"] if row.period == WINDOW else 0
        elif row.is_lacking:
            found.lacking.add(row.generation)
    return found


def _is_lacking() -> Column:
    """Hits that were logged without inputs, whose night may have them."""
    return (F.col("population") == HITS) & F.col("inputs").isNull() & F.col("generation").isNotNull()


def _with_night_features(
    spark: SparkSession, rows: DataFrame, generations: Iterable[str], task: CountTask, data_url: str
) -> DataFrame:
    """`inputs` of hits that were logged without: the features of the generation that answered. And `is_joined`."""
    nights = [
        _night(spark, generation, url, task)
        for generation in generations
        if (url := _features_url(data_url, task.manifest.name, generation)) is not None
    ]
    if not nights:
        return rows.withColumn("is_joined", F.lit(False))
    features = reduce(DataFrame.unionByName, nights)
    joined = rows.join(features, ["generation", "entity"], "left")
    return joined.withColumn("is_joined", _is_lacking() & F.col("night").isNotNull()).withColumn(
        "inputs", F.coalesce("inputs", F.when(_is_lacking(), F.col("night")))
    )


def _features_url(data_url: str, model: str, generation: str) -> str | None:
    """None where its night is gone, or it is no generation's name: the log holds what it was given."""
    try:
        parse_generation(generation)
    except ValueError:
        return None
    url = f"{data_url.rstrip('/')}/{run_path(model, generation)}/features"
    return url if exists(url) else None


def _night(spark: SparkSession, generation: str, url: str, task: CountTask) -> DataFrame:
    read = spark.read.parquet(spark_url(url))
    names = [F.col(f"`{name}`") for name in task.manifest.feature_names if name in read.columns]
    record = F.to_json(F.struct(*names), {"ignoreNullFields": "false"}) if names else F.lit(None)
    # A generation's features have one row an entity; a second would count a request twice.
    return read.select(F.lit(generation).alias("generation"), "entity", record.alias("night")).dropDuplicates(
        ["entity"]
    )


def _samples(rows: DataFrame, task: CountTask) -> tuple[dict[str, dict[str, Sample]], int]:
    """By period and population; and how many rows got their inputs from their night."""
    counted = rows.select("period", "population", "inputs", "outputs").mapInArrow(
        lambda batches: count_rows(batches, task), COUNTED_SCHEMA
    )
    sums = counted.groupBy("period", "population", "side", "name", "what", "bin").agg(F.sum("count").alias("rows"))
    tallies: dict[tuple[str, str], dict[tuple[str, str], Counter[tuple[str, str]]]] = {}
    for row in sums.collect():
        group = tallies.setdefault((row.period, row.population), {})
        group.setdefault((row.side, row.name), Counter())[row.what, row.bin] += row.rows
    repeats, joined = _repeats(rows)
    samples: dict[str, dict[str, Sample]] = {}
    for (period, population), found in tallies.items():
        samples.setdefault(period, {})[population] = Sample(
            found[ROWS].total(),
            found[RECORDS].total() if RECORDS in found else 0,
            repeats[period, population],
            dict(_histograms(task.baselines, found)),
        )
    return samples, joined


def _histograms(
    baselines: Sequence[Baseline], found: Mapping[tuple[str, str], Counter[tuple[str, str]]]
) -> Iterator[tuple[tuple[str, str], Histogram]]:
    for baseline in baselines:
        if baseline.key in found:
            yield baseline.key, histogram(baseline, found[baseline.key])


def _repeats(rows: DataFrame) -> tuple[dict[tuple[str, str], float], int]:
    """Rows for each effective one, by period and population: rows that say the same of one entity are a group.

    And how many rows got their inputs from their night.
    """
    same = rows.groupBy("period", "population", F.xxhash64("entity", "inputs", "outputs")).agg(
        F.count("*").alias("rows"), F.count_if("is_joined").alias("joined")
    )
    sums = same.groupBy("period", "population").agg(
        F.sum("rows").alias("n"),
        F.sum(F.col("rows") * F.col("rows")).alias("squares"),
        F.sum("joined").alias("joined"),
    )
    found = sums.collect()
    repeats = {(row.period, row.population): row.n / effective_rows(row.n, row.squares) for row in found}
    return repeats, sum(row.joined for row in found if row.period == WINDOW)
