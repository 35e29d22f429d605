"""`python -m online.monitor explain` on the log of a running API, its open streams and older Parquet."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from redis import Redis

from online.monitor.explain.command import main
from online.monitor.explain.words import CODES, REASONS, SOURCES
from online.monitor.settings import MonitorSettings
from schemas.http import MissReason, ProblemCode, Source
from tests.support.api_process import ROOT, ApiProcess
from tests.support.publish_small import GENERATION, Small, small_forward, small_manifest
from tests.support.redis_server import RedisServer
from tests.support.request_log import log_table, write_log
from tests.support.request_log_reading import read_log
from tests.support.wire_worker import WireNode, served

ENTITY = 'a\nb "\x1b[31m日本'
RECORDS = {
    "hot": {"distance": 1.0, "edge": 0.2, "airline": "AA"},
    ENTITY: {"distance": 2.0, "edge": 0.0, "airline": "DL"},
}


@dataclass
class Log:
    """A log of model `tiny`: answers of this minute in a running stream, and older ones in Parquet."""

    api: ApiProcess
    asked_at: datetime

    def explain(self, *words: str) -> subprocess.CompletedProcess[str]:
        """As `by_command`, without a process of its own."""
        settings = MonitorSettings(data_url=str(self.api.data), streams_dir=self.api.state / "log")
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = main(words, settings)
        return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())

    def by_command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "online.monitor", "explain", *words],
            env={
                "PYTHONPATH": str(ROOT),
                "PYTHONWARNINGS": "error",
                "MONITOR_DATA_URL": str(self.api.data),
                "MONITOR_STREAMS_DIR": str(self.api.state / "log"),
            },
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    folder = tmp_path_factory.mktemp("explain")
    small = Small(folder, small_manifest("tiny"), RECORDS, ["hot"], small_forward)
    with RedisServer() as server, Redis.from_url(server.url) as redis:
        small.publish(redis)
        settings = {"redis_url": server.url, "models": ["tiny"], "log_sample": "1", "log_never": ["airline"]}
        with (
            WireNode(served(small.raw, small.forward)) as node,
            ApiProcess(folder, nodes=[node.address], **settings) as api,
        ):
            api.wait_ready()
            asked_at = datetime.now(UTC)
            for request_id, entity in (("live one", ENTITY), ("-hit", "hot"), ("gone", "nobody")):
                body = {"entity": entity}
                api.client.post("/v1/models/tiny/predict", json=body, headers={"X-Request-Id": request_id})
            items = {"items": ["hot", ENTITY, "hot", "nobody"]}
            api.client.post("/v1/models/tiny/predictions:batch", json=items, headers={"X-Request-Id": "batch"})
            read_log(api, "tiny", lambda rows: len(rows) >= 7)
            _write_older(api.data, asked_at)
            yield Log(api, asked_at)


def _write_older(data: Path, now: datetime) -> None:
    """The same id five and two hours ago, further apart than a search around a moment looks; an hour of another
    model; a file that is none.
    """
    for hours, entity in ((5, "first"), (2, "second")):
        row = {"time": now - timedelta(hours=hours), "request_id": "again", "entity": entity, "source": "live"}
        (path,) = write_log(data, "tiny", log_table([row]), name=f"h{hours}")
    (path.parent / "torn.parquet").write_bytes(b"PAR1 and no more")
    other = {"time": now - timedelta(hours=2), "request_id": "elsewhere", "entity": "x", "source": "precomputed"}
    write_log(data, "007", log_table([other]))


def test_the_whole_story_of_a_live_answer(log: Log) -> None:
    done = log.by_command("live one", "--model", "tiny", "--around", log.asked_at.isoformat())
    assert (done.returncode, done.stderr) == (0, "")
    text = done.stdout
    assert 'Request "liveone"' in text, "as the API keeps it"
    assert r'entity      "a\nb \"\x1b[31m日本"' in text
    assert "\x1b" not in text
    assert "version     1\n  generation  –" in text
    assert "status 200, source live, label" in text
    assert "not_selected" in text
    assert "in a batch of 1 for 0.030 ms" in text
    for stage in ("route", "lookup", "features", "queue", "batch", "execute", "post", "other"):
        assert f"\n  {stage} " in text
    assert '"distance" = 2' in text
    assert '"airline" = withheld (API_LOG_NEVER)' in text


def test_a_hit_with_an_id_like_an_option(log: Log) -> None:
    done = log.explain("--json", "--", "-hit")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["entity"], row["source"], row["generation"], row["miss_reason"]) == (
        *("hot", "precomputed", GENERATION),
        None,
    )
    assert row["stages_ms"].keys() == {"route", "lookup", "post"}
    assert row["total_ms"] == pytest.approx(sum(row["stages_ms"].values()) + row["other_ms"], abs=0.001)
    assert abs((datetime.fromisoformat(row["time"].replace(" UTC", "+00:00")) - log.asked_at).total_seconds()) < 20


def test_a_failed_answer_and_a_batch(log: Log) -> None:
    gone = log.explain("gone")
    assert gone.returncode == 0
    assert "404 unknown_entity" in gone.stdout
    assert "the request brought no features" in gone.stdout
    batch = log.explain("batch")
    assert batch.stdout.startswith("4 answers have this request id")
    assert batch.stdout.count("What happened") == 3


def test_an_id_of_two_hours_is_told_of_the_newer_and_of_the_hour_asked_for(log: Log) -> None:
    """A file that cannot be read is named, and costs nothing else."""
    done = log.explain("again")
    assert done.returncode == 0
    assert '"second"' in done.stdout
    assert '"first"' not in done.stdout
    assert "torn.parquet" in done.stderr
    older = log.explain("again", "--around", (log.asked_at - timedelta(hours=5)).isoformat())
    assert '"first"' in older.stdout
    assert log.explain("elsewhere").stdout.count("model       007") == 1


def test_what_is_not_there_is_said_with_what_may_be_why(log: Log) -> None:
    done = log.explain("never asked", "--days", "2")
    assert (done.returncode, done.stdout) == (1, "")
    for word in ("007, tiny", "retention", "last two seconds", "sampled", "'neverasked'", "hotset_events_total"):
        assert word in done.stderr
    empty = log.explain("x", "--data-url", str(log.api.folder / "nothing"), "--streams-dir", "")
    assert (empty.returncode, "there is no log" in empty.stderr) == (1, True)
    unknown = log.explain("x", "--data-url", "nosuchstore://a")
    assert (unknown.returncode, "cannot be read" in unknown.stderr) == (2, True)


def test_every_word_of_the_enumerations_is_explained() -> None:
    assert set(SOURCES) == set(Source)
    assert set(REASONS) == set(MissReason)
    assert set(CODES) == set(ProblemCode)
