"""Settings of the API: `API_*`. Built once in `main()` and passed down; the workers get the same object."""

import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from online.api.live.foreign.naming import ForeignModel
from schemas.names import PARITY, check_name

_MIB = 1 << 20
_BASE_URL = re.compile(r"https?://[^/@?#\s]+(/[^@?#\s]*)?\Z")


def _checked_model(name: str) -> str:
    return check_name(name, "model")


class ApiSettings(BaseSettings):
    """One API process with its workers."""

    model_config = SettingsConfigDict(env_prefix="API_", frozen=True)

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0: any free one, which the log names.")
    workers: PositiveInt = Field(2, description="Processes that answer; one that dies is replaced.")
    models: tuple[Annotated[str, AfterValidator(_checked_model)], ...] = Field(
        ("delay",), min_length=1, description="Models that exist; any other is a 404 without a look-up."
    )
    redis_url: SecretStr = Field(
        SecretStr("redis://127.0.0.1:16379/0"), description="`redis://`, `rediss://` (TLS) or `unix://`."
    )
    nodes: tuple[str, ...] = Field(
        ("127.0.0.1:8100",),
        description="Wire directories of inference nodes: host:port, of which every address is used, or a path.",
    )
    foreign_urls: tuple[str, ...] = Field(
        (),
        description="Base URLs (`http://host:port`) of servers that speak the Open Inference Protocol, such as "
        "Triton or MLServer, to use instead of `API_NODES`.",
    )
    foreign_models: dict[str, ForeignModel] = Field(
        {},
        description="How models are called there, where not as here: JSON, by model, of `model`, `version` "
        "(theirs, or a map from ours), `inputs` (theirs by ours) and `outputs` (theirs, in our order).",
    )
    foreign_concurrency: PositiveInt = Field(
        64, description="Requests that such a server is given at a time; more wait until their deadline."
    )
    data_url: str = Field(
        ".hotset/data", description="Data root that gets the request log: a folder or fsspec URL."
    )
    state_dir: Path = Field(
        Path(".hotset/api"), description="Local folder: last routes, snapshots, unfinished request log, metrics."
    )
    allowed_bundle_urls: tuple[str, ...] = Field(
        (), description="Folders and URL prefixes from which bundles' manifests may be read."
    )
    deadline_ms: PositiveInt = Field(
        2000, description="Of a request; the header `X-Deadline-Ms` may ask for less, not for more."
    )
    lookup_budget_ms: PositiveFloat = Field(
        20.0, description="Patience with Redis; after it, a look-up is a miss."
    )
    redis_connect_timeout_ms: PositiveFloat = Field(500.0, description="Patience with connecting to Redis.")
    max_body_bytes: PositiveInt = Field(4 * _MIB, description="A longer request body is refused with 413.")
    l1_bytes: NonNegativeInt = Field(
        32 * _MIB, description="Keys and values of precomputed answers that each worker keeps; 0: none."
    )
    snapshot_max_bytes: NonNegativeInt = Field(
        2048 * _MIB, description="Largest feature snapshot that is kept for a life without Redis; 0: none."
    )
    input_cache: bool = Field(
        True, description="Whether results of features that callers bring are kept, for who brings the same."
    )
    no_cache_per_s: NonNegativeFloat = Field(
        50.0,
        description="Stored answers that requests may have computed anew (`Cache-Control: no-cache`, `max-age`) "
        "a second, for each model and worker; beyond it they get the stored ones. 0: always those.",
    )
    admin_token_file: Path | None = Field(
        None, description="File with the token for invalidating answers; without it that is switched off."
    )
    max_invalidations: PositiveInt = Field(
        100_000, description="Invalidated entities, of a model, that no newer generation has made needless."
    )
    renewal_lease_ms: NonNegativeInt = Field(
        0, description="How long one worker renews an answer for all, by a lease in Redis; 0: each for itself."
    )
    write_back_after: PositiveInt = Field(
        1,
        description="Misses of an entity, of those that a worker remembers, from which on its live results are "
        "written back; more than 1 keeps what is asked for once from taking the place of what is asked for often.",
    )
    write_back_remembered: PositiveInt = Field(
        100_000,
        description="Misses that a worker remembers for that; ten for each result that Redis has room for.",
    )
    max_write_backs: PositiveInt = Field(
        10_000, description="Live results that may wait to be written to Redis; more are dropped and counted."
    )
    log_rotate_s: PositiveFloat = Field(300.0, description="Age at which the request log becomes a Parquet file.")
    log_rotate_bytes: PositiveInt = Field(64 * _MIB, description="Size at which it does.")
    log_max_rows: PositiveInt = Field(
        200_000, description="Rows that may wait in memory for the log's writer; more are dropped and counted."
    )
    log_max_bytes: PositiveInt = Field(
        1024 * _MIB,
        description="Local log that may wait for the data root to take it; more is dropped and counted.",
    )
    log_sample: float = Field(
        0.01, ge=0, le=1, description="Share of answers whose inputs and outputs are logged."
    )
    log_never: tuple[str, ...] = Field(
        (), description="Features and outputs, by name, whose values are never among them, whatever the model."
    )
    request_log: bool = Field(
        True,
        description="Whether answers leave rows. Without them there are no metrics of answers, no traces and "
        "nothing to choose a hot set from: for measuring what they cost.",
    )
    otlp_url: str | None = Field(
        None,
        description="Base URL of a receiver of OTLP over HTTP (`http://host:4318`) for traces; none: no traces.",
    )
    trace_share: float = Field(
        0.01,
        ge=0,
        le=1,
        description="Share of the requests without a `traceparent` that are traced; one that has it says itself.",
    )
    parity_share: float = Field(
        0.001,
        ge=0,
        le=1,
        description="Share of precomputed answers that are computed again in the background and compared; they "
        "are among those that API_LOG_SAMPLE takes, so at most as many. 0: none.",
    )
    drain_delay_s: NonNegativeFloat = Field(
        0.5, description="After SIGTERM: how long `/readyz` says no before the sockets close."
    )
    drain_s: PositiveInt = Field(5, description="How long answers in flight may then take.")
    log_level: str = Field("INFO", description="Of the process's own log on standard error.")

    @model_validator(mode="after")
    def _models_differ(self) -> Self:
        if len(set(self.models)) != len(self.models):
            raise ValueError("models: a name is given twice")
        return self

    @field_validator("otlp_url")
    @classmethod
    def _otlp_url_is_base(cls, url: str | None) -> str | None:
        if url and _BASE_URL.match(url) is None:
            raise ValueError("otlp_url: a receiver is given as http://host:port")
        return url or None

    @field_validator("foreign_urls")
    @classmethod
    def _foreign_urls_are_bases(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            if _BASE_URL.match(url) is None:
                raise ValueError("a foreign server is given as http://host:port, without credentials or query")
        return tuple(url.rstrip("/") for url in urls)

    @model_validator(mode="after")
    def _foreign_models_exist(self) -> Self:
        if unknown := sorted(self.foreign_models.keys() - set(self.models)):
            raise ValueError(f"foreign_models: {', '.join(unknown)} is not among API_MODELS")
        if self.foreign_models and not self.foreign_urls:
            raise ValueError("foreign_models: there is no server in API_FOREIGN_URLS")
        return self

    @property
    def log_dir(self) -> Path:
        """Streams of the request log that are not Parquet yet; the analysts' site reads them."""
        return self.state_dir / "log"

    @property
    def parity_dir(self) -> Path:
        """The same of the log of compared hits."""
        return self.state_dir / PARITY

    @property
    def metrics_dir(self) -> Path:
        return self.state_dir / "metrics"
