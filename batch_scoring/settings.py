"""Settings of the batch jobs. Built in each `main()` by `schemas.settings.load_settings`, and passed down."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveFloat, PositiveInt, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from batch_scoring import fail_points


class BatchSettings(BaseSettings):
    """`BATCH_*`. Every job reads the same class, so that one environment serves a whole night."""

    model_config = SettingsConfigDict(env_prefix="BATCH_", frozen=True)

    redis_url: SecretStr = Field(SecretStr("redis://127.0.0.1:16379/0"), description="may hold a password")
    data_url: str = Field(".hotset/data", description="data root: a folder or any fsspec URL")
    allowed_bundle_urls: tuple[str, ...] = Field(
        (".hotset/bundles",), description="prefixes a bundle may lie under"
    )
    cache_dir: str = Field(".hotset/cache/bundles", description="local copies of bundles, by digest")
    hot_fraction: Annotated[float, Field(gt=0, le=1)] = Field(
        0.05, description="of the known entities, the most that are precomputed"
    )
    memory_budget: PositiveInt | None = Field(
        None,
        description="bytes of Redis for a model's generations and written-back results; unset: by `HOT_FRACTION`",
    )
    mandatory_url: str = Field("", description="file of entities that are always precomputed, one a line")
    block_url: str = Field("", description="file of entities that never are, one a line")
    refresh_hours: PositiveFloat = Field(24.0, description="between nights: what is precomputed must last so long")
    write_back_after: PositiveInt = Field(
        1, description="the API's `API_WRITE_BACK_AFTER`, by which the split counts on its written-back results"
    )
    history_days: PositiveInt = Field(28, description="days of the request log that the choice looks at")
    half_life_days: PositiveFloat = Field(
        7.0, description="age at which a request counts half, while the log is too short to fit it"
    )
    simulate_requests: Annotated[int, Field(ge=1000)] = Field(
        100_000, description="requests of the log that the choice is tried on; more are sampled by entity"
    )
    price_per_replica_hour: PositiveFloat | None = Field(
        None, description="price of a replica, for the report's saving"
    )
    currency: str = Field("USD", description="unit of the price")
    max_reject_share: Annotated[float, Field(ge=0, le=1)] = Field(
        0.01, description="share of rows that may be rejected before a step fails"
    )
    device: str = Field("cpu", description="`cpu`, or `cuda` for the device that Spark gives the task")
    score_batch_rows: PositiveInt = Field(1024, description="rows of one forward, at most the bundle's maximum")
    score_batch_bytes: PositiveInt = Field(
        67_108_864, description="bytes of features that a worker holds for the model at a time, about"
    )
    score_profile: Path | None = Field(
        None,
        description="`python -m online.inference profile` wrote it: what rows cost, how large forwards pay",
    )
    write_batch_entities: PositiveInt = Field(2000, description="entities of one write to Redis")
    write_batch_bytes: PositiveInt = Field(262_144, description="bytes of one write to Redis, about")
    max_entities_per_s: NonNegativeInt = Field(
        0, description="entities a second that all tasks together write to Redis; 0: as fast as they can"
    )
    verify_threads: NonNegativeInt = Field(
        0, description="score files that are compared with Redis at the same time; 0: one for each core"
    )
    redis_timeout_s: PositiveFloat = Field(30.0, description="how long one write or read may take")
    verify_sample: PositiveInt = Field(1000, description="entities read back as a client would")
    memory_reserve: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.1, description="share of Redis's memory that publishing leaves for written-back results"
    )
    keep_generations: PositiveInt = Field(2, description="generations of a version that stay loaded")
    keep_versions: PositiveInt = Field(2, description="versions that stay loaded")
    retire_after_s: NonNegativeInt = Field(60, description="how long after a switch nothing is deleted")
    rescore_previous_days: NonNegativeInt = Field(
        7, description="how long after a release the version before it is scored every night, for a rollback"
    )
    replica_max_age_s: PositiveFloat = Field(30.0, description="older reports of replicas are not believed")
    live_timeout_s: PositiveFloat = Field(5.0, description="how long a replica may take for a batch of the check")
    parity_timeout_s: PositiveFloat = Field(120.0, description="how long the check against the live tier may take")
    max_numeric_share: Annotated[float, Field(ge=0, le=1)] = Field(
        0.01, description="share of the sample that may be just outside the tolerance in a new version"
    )
    slo_ms: PositiveFloat = Field(
        100.0, description="what an answer may take: the gate counts on batches of at most half of it"
    )
    admin_token: Path | None = Field(
        None, description="file with the replicas' token (`INFERENCE_ADMIN_TOKEN`), for loading versions there"
    )
    load_timeout_s: PositiveFloat = Field(900.0, description="until the replicas must have a new version warm")
    load_at_once: PositiveInt = Field(8, description="replicas that load at the same time")
    load_least_share: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="share of the replicas that must have the new version warm"
    )
    fail_point: Annotated[str, AfterValidator(fail_points.check)] = Field(
        "", description="for drills: `POINT:kill:FOLDER` or `POINT:hold:FOLDER`, see batch_scoring/fail_points.py"
    )
