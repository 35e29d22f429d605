"""A small world for runs of the DAGs by Airflow: tables, a log, a real server, and somebody to be alerted."""

import contextlib
import json
import os
import re
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
from redis import Redis

from infra.airflow.environment import PRODUCT_PYTHON
from infra.airflow.night import run_dag
from infra.local.settings import HOME, StackSettings
from tests.dags.dag_folder import copy_dags
from tests.support.night import AS_OF, SmallNight
from tests.support.redis_server import RedisServer

TOKEN_FILE = "admin-token"
FLIGHTS = [f"F{i:02d}" for i in range(20)]


@dataclass(frozen=True)
class Kill:
    """Of a step: the process whose command line matches `words`, as soon as it has a child of that name."""

    step: str
    words: str
    child: str = ""


@dataclass
class World:
    """`run` a DAG as Airflow does. `alerts`: what was posted; `killed`: steps that lost their process."""

    settings: StackSettings
    night: SmallNight
    alert_url: str
    alerts: list[dict[str, object]]
    told: list[str] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)

    def run(
        self,
        dag_id: str,
        parameters: Mapping[str, str] | None = None,
        as_of: datetime | None = AS_OF,
        models: Sequence[Mapping[str, str]] = (),
        kill: Sequence[Kill] = (),
    ) -> dict[str, float]:
        """Seconds of each step.

        Args:
            kill: what loses its process, once each.

        Raises:
            NightFailed: a step failed for good.
        """
        self.told.clear()
        self.alerts.clear()
        self.killed.clear()
        end = threading.Event()
        killers = [threading.Thread(target=self._kill, args=(one, end)) for one in kill]
        for killer in killers:
            killer.start()
        try:
            return run_dag(
                self.settings,
                dag_id,
                [],
                as_of,
                parameters,
                self.told.append,
                self._environment(models),
                fail_fast=False,
            )
        finally:
            end.set()
            for killer in killers:
                killer.join()

    def _environment(self, models: Sequence[Mapping[str, str]]) -> dict[str, str]:
        variable = {
            "home": str(HOME),
            "python": str(PRODUCT_PYTHON),
            "models": models,
            "alert_url": self.alert_url,
        }
        return {
            **os.environ,
            **self.night.environment(),
            "BATCH_ADMIN_TOKEN": str(self.night.folder / TOKEN_FILE),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.settings.state / "dags"),
            "AIRFLOW_VAR_HOTSET": json.dumps(variable),
            "PYTHONWARNINGS": "ignore",
        }

    def _kill(self, kill: Kill, end: threading.Event) -> None:
        """Ends the step's process as the system does that runs out of memory."""
        while not end.wait(0.02):
            for process in _below(psutil.Process()):
                if not re.search(kill.words, _line(process)):
                    continue
                if not kill.child or any(kill.child in _line(child) for child in _below(process)):
                    with contextlib.suppress(psutil.Error):
                        process.kill()
                        self.killed.append(kill.step)
                        return

    def activated(self) -> list[dict[str, object]]:
        """What the events of the asset of activations hold, oldest first."""
        with contextlib.closing(sqlite3.connect(self.settings.state / "airflow" / "airflow.db")) as database:
            rows = database.execute(
                "select e.extra from asset_event e join asset a on a.id = e.asset_id"
                " where a.name = 'hotset-generation-activated' order by e.id"
            ).fetchall()
        return [json.loads(row[0]) for row in rows]


def _below(process: psutil.Process) -> list[psutil.Process]:
    """What the process has started, and what that has; nothing where it has ended."""
    with contextlib.suppress(psutil.Error):
        return list(process.children(recursive=True))
    return []


def _line(process: psutil.Process) -> str:
    """Its command line; empty where it has ended."""
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


@contextlib.contextmanager
def listener() -> Iterator[tuple[str, list[dict[str, object]]]]:
    """An address that takes alerts, and what it took."""
    taken: list[dict[str, object]] = []

    class Take(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Take) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/alerts", taken
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def small_world(folder: Path) -> Iterator[World]:
    copy_dags(folder / "dags")
    with (
        RedisServer(("--maxmemory-policy", "volatile-lfu")) as server,
        Redis.from_url(server.url) as redis,
        listener() as (url, alerts),
    ):
        night = SmallNight(folder, server.url, redis)
        night.write_tables(FLIGHTS)
        night.write_log({entity: i + 1 for i, entity in enumerate(FLIGHTS)}, at=AS_OF - timedelta(hours=30))
        (folder / TOKEN_FILE).write_text("let-me-in\n")
        yield World(StackSettings.on_free_ports(folder), night, url, alerts)
