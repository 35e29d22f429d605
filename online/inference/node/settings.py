"""Settings of the inference node: `INFERENCE_*`. Built once in `main()` and passed down."""

import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import (
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

from online.inference.devices import parse_device

_BUNDLE = re.compile(r"(?P<url>.+)@(?P<digest>[0-9a-f]{64})\Z")


@dataclass(frozen=True, slots=True)
class BundleAddress:
    url: str
    digest: str


class InferenceSettings(BaseSettings):
    """One node: what it serves, on which device, and where it listens."""

    model_config = SettingsConfigDict(env_prefix="INFERENCE_", frozen=True)

    bundles: tuple[str, ...] = Field(
        default=(), description="Bundles to serve, each `URL@DIGEST`; the digest is the manifest's sha256."
    )
    allowed_bundle_urls: tuple[str, ...] = Field(
        default=(), description="Folders and URL prefixes that bundles may come from."
    )
    device: str = Field(default="cpu", description="`cpu`, `cuda:N` or `emulated:TAU0_MS,ALPHA_MS`.")
    cache: Path = Field(default=Path(".hotset/bundles"), description="Folder for verified copies of bundles.")
    name: str | None = Field(default=None, description="Of this replica; by default host name and wire port.")
    host: str = Field(default="127.0.0.1", description="Where the wire directory and the workers listen.")
    advertise_host: str | None = Field(
        default=None, description="By which clients reach this host; by default `host`, or the host's name."
    )
    wire_port: NonNegativeInt = Field(default=8100, le=65535, description="Of the wire directory; 0: any.")
    unix_sockets: Path | None = Field(
        default=None, description="Folder: workers listen on Unix sockets there, not on ports."
    )
    http_host: str = Field(default="127.0.0.1", description="Where HTTP listens.")
    http_port: NonNegativeInt = Field(
        default=8101, le=65535, description="Of health, metrics and profile; 0: any."
    )
    grpc_host: str = Field(default="127.0.0.1", description="Where the Open Inference Protocol listens by gRPC.")
    grpc_port: NonNegativeInt = Field(default=8102, le=65535, description="Of gRPC; 0: any.")
    admin_token: Path | None = Field(
        default=None, description="File with the token for loading and unloading; without it these are off."
    )
    default_timeout_s: PositiveFloat = Field(
        default=10.0, description="Deadline of a request by the public protocol that brings none."
    )
    max_body_bytes: PositiveInt = Field(default=64 << 20, description="Of a request by the public protocol.")
    instances: PositiveInt = Field(
        default=1, le=64, description="Copies of each version that share its queue and its threads."
    )
    precision: Literal["float32", "bfloat16"] = Field(
        default="float32", description="bfloat16 where the golden rows stay within the manifest's tolerance."
    )
    cuda_graphs: bool = Field(
        default=False, description="On `cuda:N`: capture the launches of batches of 1, 2, 4 ... rows."
    )
    memory_limit_mib: PositiveInt | None = Field(
        default=None, description="For weights and activations of a version; by default what the device has free."
    )
    max_batch_rows: PositiveInt | None = Field(default=None, description="Lowers the bundles' own maximum.")
    max_queue_delay_ms: NonNegativeFloat = Field(
        default=0.0, description="How long an idle device waits for company; a busy one never does."
    )
    max_queued_rows: PositiveInt = Field(default=2048, description="Rows that may wait, for each version.")
    threads: PositiveInt | None = Field(
        default=None, description="Of torch, for each version; by default an equal share of the cores allowed."
    )
    drain_s: PositiveFloat = Field(default=10.0, description="From SIGTERM to the end, at most.")
    restart_pause_s: PositiveFloat = Field(
        default=0.5, description="Until a crashed worker starts again; doubles."
    )
    restart_pause_max_s: PositiveFloat = Field(default=30.0, description="The longest of these pauses.")
    steady_s: PositiveFloat = Field(default=60.0, description="Up for so long, a worker has no crashes behind it.")
    refused_retry_s: PositiveFloat = Field(default=60.0, description="Before a refused bundle is tried again.")
    silent_s: PositiveFloat = Field(default=20.0, description="A worker that is silent for so long is killed.")
    stall_s: PositiveFloat = Field(default=60.0, description="A worker whose batch takes longer is killed.")
    redis_url: SecretStr | None = Field(default=None, description="Where the replica announces itself; optional.")
    otlp_url: str | None = Field(
        default=None,
        description="Base URL of a receiver of OTLP over HTTP (`http://host:4318`) for the spans of requests that "
        "come with a trace; none: no spans.",
    )
    log_level: str = Field(default="INFO", description="Of the logs on standard error.")

    @field_validator("bundles")
    @classmethod
    def _bundles_have_digests(cls, bundles: tuple[str, ...]) -> tuple[str, ...]:
        for bundle in bundles:
            if _BUNDLE.match(bundle) is None:
                raise ValueError(f"{bundle!r} is not URL@DIGEST, where the digest is 64 hexadecimal digits")
        digests = [bundle.rpartition("@")[2] for bundle in bundles]
        if len(set(digests)) != len(digests):
            raise ValueError("a bundle is named twice")
        return bundles

    @field_validator("device")
    @classmethod
    def _device_is_known(cls, device: str) -> str:
        return parse_device(device).name

    @model_validator(mode="after")
    def _graphs_need_cuda(self) -> Self:
        if self.cuda_graphs and not self.device.startswith("cuda:"):
            raise ValueError("cuda_graphs needs a device cuda:N")
        return self

    @model_validator(mode="after")
    def _queue_holds_one_batch(self) -> Self:
        if self.max_batch_rows is not None and self.max_queued_rows < self.max_batch_rows:
            raise ValueError("max_queued_rows must be >= max_batch_rows")
        return self

    @property
    def advertised_host(self) -> str:
        """A wildcard is no address that a client could connect to."""
        here = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host
        return self.advertise_host or here

    @property
    def advertised_http_host(self) -> str:
        """One host that HTTP listens on is where it is reached; `advertise_host` is for a wildcard."""
        if self.http_host in ("0.0.0.0", "::"):
            return self.advertise_host or socket.gethostname()
        return f"[{self.http_host}]" if ":" in self.http_host else self.http_host

    @property
    def addresses(self) -> tuple[BundleAddress, ...]:
        return tuple(BundleAddress(*bundle.rsplit("@", 1)) for bundle in self.bundles)

    def replica_name(self, wire_port: int) -> str:
        return self.name or f"{socket.gethostname()}:{wire_port}"
