"""Settings of the batch jobs. Built in each `main()` by `schemas.settings.load_settings`, and passed down."""

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class BatchSettings(BaseSettings):
    """`BATCH_*`. Every job reads the same class, so that one environment serves a whole night."""

    model_config = SettingsConfigDict(env_prefix="BATCH_", frozen=True)

    redis_url: SecretStr = Field(SecretStr("redis://127.0.0.1:16379/0"), description="may hold a password")
    data_url: str = Field(".hotset/data", description="data root: a folder or any fsspec URL")
    allowed_bundle_urls: tuple[str, ...] = Field(
        (".hotset/bundles",), description="prefixes a bundle may lie under"
    )
    cache_dir: str = Field(".hotset/cache/bundles", description="local copies of bundles, by digest")
    hot_fraction: Annotated[float, Field(gt=0, le=1)] = Field(0.05, description="of the known entities")
    history_days: PositiveInt = Field(28, description="days of the request log that the choice looks at")
    half_life_days: PositiveFloat = Field(7.0, description="age at which a request counts half")
    max_reject_share: Annotated[float, Field(ge=0, le=1)] = Field(
        0.01, description="share of rows that may be rejected before a step fails"
    )
    device: str = Field("cpu", description="`cpu`, or `cuda` for the device that Spark gives the task")
    score_batch_rows: PositiveInt = Field(1024, description="rows of one forward, at most the bundle's maximum")
    write_batch_entities: PositiveInt = Field(2000, description="entities of one write to Redis")
    redis_timeout_s: PositiveFloat = Field(30.0, description="how long one write or read may take")
    verify_sample: PositiveInt = Field(1000, description="entities read back as a client would")
    memory_reserve: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.1, description="share of Redis's memory that publishing leaves for written-back results"
    )
    keep_generations: PositiveInt = Field(2, description="generations of a version that stay loaded")
    keep_versions: PositiveInt = Field(2, description="versions that stay loaded")
    retire_after_s: NonNegativeInt = Field(60, description="how long after a switch nothing is deleted")
    replica_max_age_s: PositiveFloat = Field(30.0, description="older reports of replicas are not believed")
