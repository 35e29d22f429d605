"""What a delta scores: the entities of the live generation whose features have changed since it was computed.

Compared with the base and not with an earlier delta, so that a look-up has one delta at most to read beside it.
"""

from functools import reduce
from operator import or_

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from batch_scoring.files import absolute, dataset, spark_url, write_parquet
from batch_scoring.runs import Refused, Run, stage
from batch_scoring.session import spark_session
from batch_scoring.settings import BatchSettings
from schemas.arrow import HOT_SET
from schemas.names import run_path


def select_changed(run: Run, settings: BatchSettings) -> dict[str, object]:
    """Writes `hotset/`: the changed entities, with the weights that the base chose them by.

    Raises:
        Refused: the files of the base are gone, or it was computed from other features.
    """
    base = _base(run, settings)
    names = run.need_report("features")["features"]
    assert isinstance(names, list), "features of report-features.json are names"
    if base.need_report("features")["features"] != names:
        raise Refused(f"{base.generation} was computed from other features than {', '.join(names)}: run a night")
    known, of_base = run.count("features", "rows"), dataset(base.place("hotset")).count_rows()
    with spark_session(f"hotset-changes-{run.generation}") as spark, stage(run, "changed entities") as facts:
        found = _changed(spark, run, base, names).orderBy("entity").toArrow()
        assert isinstance(found, pa.Table)
        chosen = write_parquet(run.place("hotset"), HOT_SET, [found])
        facts |= {"of the base": of_base, "changed": chosen}
    return {"known": known, "base": base.generation, "budget": of_base, "chosen": chosen}


def _changed(spark: SparkSession, run: Run, base: Run, names: list[str]) -> DataFrame:
    hot = spark.read.parquet(spark_url(base.place("hotset"))).select("entity", "weight")
    now, then = (spark.read.parquet(spark_url(one.place("features"))).alias(one.generation) for one in (run, base))
    differs = reduce(
        or_, (~F.col(f"`{run.generation}`.`{n}`").eqNullSafe(F.col(f"`{base.generation}`.`{n}`")) for n in names)
    )
    # What has no features any more keeps its answer until the next night, which leaves it out.
    changed = now.join(then, "entity").where(differs).select("entity")
    return hot.join(changed, "entity", "left_semi")


def _base(run: Run, settings: BatchSettings) -> Run:
    assert run.base is not None, "begin gives a delta its base"
    try:
        return Run.load(f"{absolute(settings.data_url)}/{run_path(run.model, run.base)}/run.json")
    except Refused as fault:
        raise Refused(f"{fault}; a delta needs the files of {run.base}, which it patches") from None
