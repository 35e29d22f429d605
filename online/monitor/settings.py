"""Settings of the analysts' site, read from `MONITOR_*` by `__main__` only."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.names import check_name


def _checked_model(name: str) -> str:
    return check_name(name, "model")


class MonitorSettings(BaseSettings):
    """Where the site listens, what it reads, and what its fleet estimate assumes."""

    model_config = SettingsConfigDict(env_prefix="MONITOR_", frozen=True)

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8050, ge=0, le=65535, description="port to listen on; 0: any free one, which the log names")
    models: tuple[Annotated[str, AfterValidator(_checked_model)], ...] = Field(
        ("delay",), min_length=1, description="models the site shows; any other is a 404"
    )
    data_url: str = Field(
        ".hotset/data", description="data root that holds `requests/`: a folder or an fsspec URL"
    )
    redis_url: SecretStr = Field(
        SecretStr("redis://127.0.0.1:16379/0"), description="where the routes document and the replicas are read"
    )
    streams_dir: Path | None = Field(
        Path(".hotset/api/log"),
        description="the API's log folder (`API_STATE_DIR/log`), for rows not yet rotated, `parity` beside it;"
        " empty: Parquet only",
    )
    state_dir: Path | None = Field(
        Path(".hotset/monitor"),
        description="where the figures of the log are kept, so that a restart does not read it all again; a few MB"
        " a million rows; empty: nowhere",
    )
    slo_ms: PositiveFloat = Field(
        100.0, description="what an answer may take; a batch may take half of it, since a row may wait for one"
    )
    price_per_replica_hour: PositiveFloat | None = Field(None, description="price of a replica; unset: none shown")
    price_per_batch_hour: NonNegativeFloat | None = Field(
        None, description="price of an hour of the nightly job, with all machines that it holds"
    )
    price_per_redis_gb_month: NonNegativeFloat | None = Field(
        None, description="price of a GB of Redis's memory a month"
    )
    redis_gb: NonNegativeFloat | None = Field(
        None,
        description="memory of Redis paid for because of precomputing; unset: what the routed generations take",
    )
    batch_replicas: NonNegativeFloat = Field(
        1.0,
        description="replicas that an hour of the nightly job counts as while the two prices are not set",
    )
    currency: str = Field("USD", max_length=8, description="unit of the price")
    cache_s: float = Field(2.0, ge=0, le=60, description="how long a page's figures are kept")
    redis_timeout_s: PositiveFloat = Field(0.5, description="patience with Redis before the page goes without")
    query_threads: PositiveInt = Field(2, description="threads of a query")
    query_memory_mb: PositiveInt = Field(
        1024, description="memory that reading a model's log may take; its kept figures come on top, under 100 MB"
    )
    niceness: int = Field(
        5, ge=0, le=19, description="added to the process's nice value, so that answers go first"
    )

    @field_validator("streams_dir", "state_dir", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value == "" else value

    @model_validator(mode="after")
    def _models_differ(self) -> Self:
        if len(set(self.models)) != len(self.models):
            raise ValueError("models: a name is given twice")
        return self
