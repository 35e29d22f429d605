"""Loading a version on the replicas: a real node that announces itself in a real Valkey, and takes a token."""

import logging
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from redis import Redis

from batch_scoring.publishing.__main__ import main
from batch_scoring.publishing.load import load
from batch_scoring.runs import Refused
from tests.redis.conftest import REPLICA, LiveTier
from tests.support.live_night import LiveNight, twin
from tests.support.redis_server import free_port

GONE = "gone"


@pytest.fixture
def announcing(live_tier: LiveTier, tmp_path: Path) -> Iterator[LiveNight]:
    """In the database that the node itself writes to."""
    with Redis.from_url(live_tier.server.url) as client:
        yield LiveNight(tmp_path, live_tier.server.url, client, {"admin_token": live_tier.token_file})


def with_token(night: LiveNight, live_tier: LiveTier, **more: object) -> LiveNight:
    night.more = {"admin_token": live_tier.token_file, **more}
    return night


def test_a_cold_version_gets_warm_and_the_second_call_finds_nothing_to_do(
    announcing: LiveNight,
    live_tier: LiveTier,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = announcing.run(live_tier.next_bundle)
    assert live_tier.next_bundle.digest not in str(live_tier.announcement())
    first = load(run, announcing.settings)
    assert (first["warm"], first["replicas"], first["already_warm"], first["loaded"]) == (1, 1, [], [REPLICA])
    states = {one["digest"]: one["state"] for one in live_tier.announcement()["versions"]}
    assert states == {live_tier.bundle.digest: "ready", live_tier.next_bundle.digest: "ready"}

    # The second by the command itself, without a token, which it has no use for.
    monkeypatch.setenv("BATCH_REDIS_URL", announcing.redis_url)
    monkeypatch.setenv("BATCH_DATA_URL", str(announcing.folder / "data"))
    with caplog.at_level(logging.INFO):
        assert main(["load", "--run", run.url]) == 0
    assert "version 2 is warm on 1 of 1 replicas, to be loaded on 0" in caplog.text
    report = orjson.loads(Path(run.place("report-load.json")).read_bytes())
    assert (report["already_warm"], report["loaded"]) == ([REPLICA], [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("another", "replica-1: status 401"),
        ("ünlike", "replica-1: status 401"),
        ("", "holds no token"),
        ("two\nlines", "or several words"),
        (None, "cannot be read"),
    ],
)
def test_without_the_token_it_is_refused(
    night: LiveNight, live_tier: LiveTier, tmp_path: Path, text: str | None, words: str
) -> None:
    token = tmp_path / "token"
    if text is not None:
        token.write_text(text)
    night.announce(REPLICA, live_tier.announcement())
    night.more = {"admin_token": token}
    with pytest.raises(Refused, match=words):
        load(night.run(live_tier.twin), night.settings)
    night.more = {}
    with pytest.raises(Refused, match="BATCH_ADMIN_TOKEN names no file"):
        load(night.run(live_tier.twin), night.settings)


def test_a_bundle_that_the_replica_may_not_read_is_refused_in_its_words(
    night: LiveNight, live_tier: LiveTier, tmp_path: Path
) -> None:
    night.announce(REPLICA, live_tier.announcement())
    elsewhere = twin(live_tier.bundle, tmp_path / "tiny-3", "3")
    with pytest.raises(Refused, match=r"warm on 0 of 1 replicas.*status 400: .*allowed bundle addresses"):
        load(with_token(night, live_tier).run(elsewhere), night.settings)


def test_without_a_replica_it_is_refused(night: LiveNight, live_tier: LiveTier) -> None:
    run = with_token(night, live_tier).run(live_tier.bundle)
    with pytest.raises(Refused, match="no replica of the live tier announces itself"):
        load(run, night.settings)
    night.announce(REPLICA, live_tier.announcement() | {"draining": True})
    with pytest.raises(Refused, match="no replica of the live tier announces itself"):
        load(run, night.settings)


def test_how_many_must_have_it_is_a_setting_and_old_replicas_are_left_out(
    night: LiveNight, live_tier: LiveTier
) -> None:
    here, cold = live_tier.announcement(), {"versions": [], "http": f"127.0.0.1:{free_port()}"}
    night.announce(REPLICA, here)
    night.announce(GONE, here | cold)
    night.announce("old", here | {"versions": [], "http": None})
    run = with_token(night, live_tier).run(live_tier.bundle)
    with pytest.raises(Refused, match=r"warm on 1 of 2 replicas, and 100% are wanted .*gone: cannot be reached"):
        load(run, night.settings)
    report = load(run, with_token(night, live_tier, load_least_share=0.5).settings)
    assert (report["warm"], report["replicas"], report["already_warm"]) == (1, 2, [REPLICA])
    assert (report["left_out"], list(report["failed"])) == (["old"], [GONE])


def test_one_that_loads_and_never_says_so_is_not_waited_for_for_ever(
    night: LiveNight, live_tier: LiveTier
) -> None:
    silent = live_tier.announcement() | {"versions": []}
    night.announce("silent", silent)
    run = with_token(night, live_tier, load_timeout_s=1.0).run(live_tier.bundle)
    with pytest.raises(Refused, match="silent: it has loaded, and does not announce it"):
        load(run, night.settings)
