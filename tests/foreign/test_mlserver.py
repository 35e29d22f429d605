"""The API on a real MLServer with its own environment: answers, and it unloaded, paused, killed or wrong."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from redis import Redis

from infra.local.others import MLSERVER
from infra.local.venvs import bring_up_to_date
from runtime.program import load_program
from schemas.bundle import Bundle, load_transform
from schemas.manifest import Freshness
from schemas.outputs import calibrate
from tests.support.api_process import ApiProcess, wait_for
from tests.support.bundles import Linear, linear_bundle
from tests.support.publish_small import Record, Small
from tests.support.redis_server import RedisServer, free_port

pytestmark = pytest.mark.fault

RUNTIME = Path(__file__).with_name("mlserver_runtime.py")
RECORDS: dict[str, Record] = {
    f"e{place}": {"distance": 50.0 * place, "delay": 3.0 - place, "airline": ("AA", "DL", "UA")[place % 3]}
    for place in range(30)
}
RECORDS["bad"] = {"distance": 666.0}  # 0.666 as the model takes it


class MlServer:
    """MLServer on the model `theirs`, version 3, with the weights of a seed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._port = folder, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        shutil.copyfile(RUNTIME, folder / "mlserver_runtime.py")
        model = {
            "name": "theirs",
            "implementation": "mlserver_runtime.Linear",
            "parameters": {"version": "3"},
        }
        (folder / "model-settings.json").write_text(json.dumps(model))
        ports = {"http_port": self._port, "grpc_port": free_port(), "metrics_endpoint": None}
        settings = {"host": "127.0.0.1", "parallel_workers": 0, "debug": False, **ports}
        (folder / "settings.json").write_text(json.dumps(settings))
        self.weigh(seed)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def weigh(self, seed: int) -> None:
        linear = Linear(seed)
        weights = {"weight": linear.weight.tolist(), "by_airline": linear.by_airline.tolist()}
        (self._folder / "weights.json").write_text(json.dumps(weights))

    def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [MLSERVER.folder / "bin" / "mlserver", "start", "."],
                cwd=self._folder,
                env={"PATH": f"{MLSERVER.folder / 'bin'}:/usr/bin:/bin", "HOME": str(self._folder)},
                stdout=log,
                stderr=log,
            )
        wait_for(self._is_ready, 60, f"MLServer; its log is {self._folder / 'log'}")

    def signal(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def order(self, what: str) -> None:
        httpx.post(f"{self.url}/v2/repository/models/theirs/{what}", timeout=10).raise_for_status()

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
        try:
            return httpx.get(f"{self.url}/v2/models/theirs/ready").status_code == 200
        except httpx.TransportError:
            return False


@dataclass
class World:
    api: ApiProcess
    server: MlServer
    bundle: Bundle

    def ask(self, entity: str, **headers: str) -> httpx.Response:
        return self.api.client.get(f"/v1/models/tiny/predictions/{entity}", headers=headers)

    def wait_ready(self, ready: bool, timeout_s: float = 15.0) -> None:
        status = 200 if ready else 503
        wait_for(lambda: self.api.client.get("/readyz").status_code == status, timeout_s, f"readiness: {ready}")

    def assert_right(self, entity: str) -> None:
        """What the API answers is what the bundle gives in bare torch."""
        program = load_program(self.bundle.folder, self.bundle.manifest)
        done = load_transform(self.bundle.folder, self.bundle.manifest).records([RECORDS[entity]])
        late, minutes = calibrate(self.bundle.manifest.output, program(done.tensors))[0].tolist()
        answer = self.ask(entity)
        told = answer.json()
        assert (answer.status_code, told["source"], told["version"]) == (200, "live", "1"), told
        assert told["outputs"]["late"] == pytest.approx(late, abs=2e-6)
        assert told["outputs"]["minutes"] == pytest.approx(minutes, rel=1e-5, abs=2e-6)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    bring_up_to_date(MLSERVER, lambda text: None)
    folder = tmp_path_factory.mktemp("mlserver")
    bundle = linear_bundle(folder / "bundle", seed=4)
    # Without answers for when live is unavailable, which would hide that it is.
    small = Small(folder, bundle.manifest.model_copy(update={"freshness": Freshness()}), RECORDS, [])
    server = MlServer(folder / "server", seed=4)
    named = {"tiny": {"model": "theirs", "version": {"1": "3"}, "inputs": {"numbers": "x"}, "outputs": ["logits"]}}
    settings = {"models": ["tiny"], "foreign_urls": [server.url], "foreign_models": named, "l1_bytes": "0"}
    server.start()
    try:
        with RedisServer() as redis, Redis.from_url(redis.url) as client:
            small.publish(client, generation=None)
            with ApiProcess(folder, redis_url=redis.url, **settings) as api:
                api.wait_ready()
                yield World(api, server, bundle)
    finally:
        server.stop()


def test_answers_are_the_bundles(world: World) -> None:
    for entity in ("e1", "e2", "e3"):
        world.assert_right(entity)
    names = ["e20", "bad", *(f"e{place}" for place in range(21, 30))]  # each entity once: answers are kept
    answer = world.api.client.post("/v1/models/tiny/predictions:batch", json={"items": names})
    codes = {name: result.get("code") for name, result in zip(names, answer.json()["results"], strict=True)}
    assert {name for name, code in codes.items() if code is not None} == {"bad"}
    assert codes["bad"] == "model_error"


def test_an_unloaded_model_is_unready(world: World) -> None:
    world.server.order("unload")
    world.wait_ready(False)
    assert world.ask("e9").json()["code"] == "live_unavailable"
    world.server.order("load")
    world.wait_ready(True)
    world.assert_right("e9")


def test_a_server_that_hangs(world: World) -> None:
    world.server.signal(signal.SIGSTOP)
    began_s = time.monotonic()
    answer = world.ask("e10", **{"X-Deadline-Ms": "300"})
    assert time.monotonic() - began_s < 1.5
    assert (answer.status_code, answer.json()["code"]) == (503, "deadline_exceeded")
    world.wait_ready(False)
    world.server.signal(signal.SIGCONT)
    world.wait_ready(True)
    world.assert_right("e10")


def test_a_server_that_is_killed(world: World) -> None:
    world.server.stop()
    world.wait_ready(False)
    assert world.ask("e11").json()["code"] == "live_unavailable"
    world.server.start()
    world.wait_ready(True)
    world.assert_right("e11")


def test_a_server_with_another_model_is_not_used(world: World) -> None:
    """Its golden rows come out wrong, and right again once it has the model of the bundle."""
    world.server.stop()
    world.wait_ready(False)
    world.server.weigh(seed=5)
    world.server.start()
    # Several polls: none may take it for the bundle's.
    until_s = time.monotonic() + 3
    while time.monotonic() < until_s:
        assert world.api.client.get("/readyz").status_code == 503
        time.sleep(0.1)
    assert "it is not used" in world.api.log_tail()
    world.server.stop()
    world.server.weigh(seed=4)
    world.server.start()
    world.wait_ready(True)
    world.assert_right("e12")
