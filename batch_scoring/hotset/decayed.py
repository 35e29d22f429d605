"""Decayed counts of requests by entity, in Spark: what `expected.decayed_means` is in memory."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from batch_scoring.hotset.profiles import Profile


def age_sql(as_of_s: float, refresh_s: float) -> str:
    """Spark SQL of how many windows before `as_of_s` a request was."""
    return f"({as_of_s!r}D - time_s) / {refresh_s!r}D"


def decayed_counts(
    requests: DataFrame, as_of_s: float, windows: int, refresh_s: float, profile: Profile
) -> DataFrame:
    """(entity, weight, requests) over the `windows` windows before `as_of_s`.

    Args:
        requests: (entity, time_s, requests).
    """
    age = age_sql(as_of_s, refresh_s)
    inside = requests.where(f"{age} > 0 AND {age} <= {windows}")
    weight = F.sum(F.expr(f"requests * {profile.sql(age)}"))
    # Rounded, since a sum's last digits depend on the order of addition, which a retry may change.
    return inside.groupBy("entity").agg(F.round(weight, 9).alias("weight"), F.sum("requests").alias("requests"))
