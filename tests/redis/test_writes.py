"""How a night uses a real Valkey that others use too: in small bites, evenly where limited, by few clients."""

import time
from pathlib import Path

import pytest
from redis import Redis
from redis.client import Pipeline

from batch_scoring.link import Link
from batch_scoring.publishing.generation import need_verified
from batch_scoring.publishing.verify import verify
from batch_scoring.runs import Run
from batch_scoring.settings import BatchSettings
from tests.support.scored import PARTS, publish_here, scored

ENTITIES = [f"F{i}" for i in range(4000)]
# A bucket of these has at most about 130 fields of 50 bytes.
BUCKET_FIELDS, FIELD_BYTES = 130, 60


@pytest.fixture
def settings(redis_url: str, tmp_path: Path) -> BatchSettings:
    return BatchSettings.model_validate({"redis_url": redis_url, "data_url": str(tmp_path)})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return scored(tmp_path, ENTITIES)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, int]]:
    """When each write went out, and its bytes."""
    found: list[tuple[float, int]] = []
    send = Link.send

    def noted(link: Link, packed: bytes) -> None:
        found.append((time.monotonic(), len(packed)))
        send(link, packed)

    monkeypatch.setattr(Link, "send", noted)
    return found


@pytest.mark.parametrize(
    ("limits", "most_fields"),
    [
        ({"write_batch_entities": 500}, 500),
        ({"write_batch_bytes": 20_000}, 20_000 // 40),
        # A hundredth of a second's worth, which is less than a bucket.
        ({"max_entities_per_s": 8_000}, BUCKET_FIELDS),
    ],
)
def test_writes_are_of_bounded_size(
    run: Run,
    settings: BatchSettings,
    sent: list[tuple[float, int]],
    limits: dict[str, int],
    most_fields: int,
) -> None:
    publish_here(run, settings.model_copy(update=limits))
    largest = max(size for _, size in sent)
    assert largest <= max(most_fields, BUCKET_FIELDS) * FIELD_BYTES
    assert len(sent) >= len(ENTITIES) / max(most_fields, BUCKET_FIELDS)


def test_a_limited_load_goes_out_evenly_and_not_in_bursts(
    run: Run, settings: BatchSettings, sent: list[tuple[float, int]]
) -> None:
    """No tenth of a second has more than a fifth's worth: the time that reading takes is not made up for."""
    limited = settings.model_copy(update={"max_entities_per_s": 8_000})
    publish_here(run, limited)
    bytes_an_entity = sum(size for _, size in sent) / len(ENTITIES)
    for begin_s, _ in sent:
        within = sum(size for at_s, size in sent if begin_s <= at_s < begin_s + 0.1)
        assert within <= 0.2 * 8_000 * bytes_an_entity


def test_a_task_has_one_client_however_many_rows_it_writes(run: Run, settings: BatchSettings) -> None:
    with Redis.from_url(settings.redis_url.get_secret_value()) as redis:

        def connections() -> int:
            return int(redis.info("stats")["total_connections_received"])

        before = connections()
        publish_here(run, settings.model_copy(update={"write_batch_entities": 100}))
        # One that writes and one that asks whether the attempt is still the one; the driver has one too.
        assert connections() - before <= 2 * PARTS + 1


def test_what_is_read_back_and_looked_at_before_the_switch_is_asked_for_some_at_a_time(
    run: Run, settings: BatchSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server answers nobody else while it answers a pipeline."""
    publish_here(run, settings)
    asked: list[int] = []
    execute = Pipeline.execute

    def noted(pipeline: "Pipeline[bytes]", raise_on_error: bool = True) -> list[object]:
        asked.append(len(pipeline))
        found: list[object] = execute(pipeline, raise_on_error)
        return found

    monkeypatch.setattr(Pipeline, "execute", noted)
    assert verify(run, settings)["read_back"] == 1000
    assert (sum(asked), max(asked)) == (1000, 16)
    asked.clear()
    with Redis.from_url(settings.redis_url.get_secret_value()) as redis:
        need_verified(redis, run)
    assert (sum(asked), max(asked)) == (run.count("score", "buckets"), 16)
