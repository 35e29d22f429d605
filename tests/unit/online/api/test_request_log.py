"""The request log from buffer to Parquet: nothing lost but what is counted, nothing sunk by one bad value."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq

from online.api import tracing
from online.api.metrics import series
from online.api.requestlog.arrays import to_batch
from online.api.requestlog.buffer import LogBuffer
from online.api.requestlog.columns import Columns
from online.api.requestlog.stream import LogStream, claim
from online.api.requestlog.writer import LogWriter
from schemas.arrow import REQUEST_LOG
from tests.support.request_log_reading import stream_rows

NOW = datetime(2026, 11, 29, 1, 59, 59, 500_000, tzinfo=UTC)


def row(request_id: str, entity: str | None = "a", when: datetime = NOW, **changed: object) -> tuple[object, ...]:
    values: dict[str, object] = dict.fromkeys(REQUEST_LOG.names)
    values |= {
        "time": int(when.timestamp() * 1e6),
        "request_id": request_id,
        "entity": entity,
        "status": 200,
        "total_us": 900,
        "is_caller_features": False,
    }
    return tuple((values | changed).values())


def no_metrics(taken: Sequence[tuple[str, Columns]], refused: Mapping[str, int]) -> None:
    """These tests are about the log alone."""


def writer(buffer: LogBuffer, folder: Path, data: Path, **changed: int) -> LogWriter:
    limits = {"rotate_s": 3600, "rotate_bytes": 1 << 30, "max_bytes": 1 << 30, **changed}
    return LogWriter(buffer, folder / "log", str(data), fold=no_metrics, **limits)


def parquet(data: Path) -> dict[str, list[str]]:
    """Request ids by partition."""
    found: dict[str, list[str]] = {}
    for path in sorted(data.glob("requests/*/*/*/[!.]*")):  # what begins with a dot is being written
        table = pq.ParquetFile(path).read()
        assert table.schema.equals(REQUEST_LOG), "one declared schema in every file"
        found.setdefault(str(path.parent.relative_to(data / "requests")), []).extend(
            table["request_id"].to_pylist()
        )
    return found


def eventually(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    until_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.02)


def test_the_places_of_columns_are_those_of_the_schema() -> None:
    """Metrics and traces read rows by place."""
    for name, place in {
        "version": series.VERSION,
        "arm": series.ARM,
        "source": series.SOURCE,
        "miss_reason": series.REASON,
        "status": series.STATUS,
        "code": series.CODE,
        "confidence": series.CONFIDENCE,
        "total_us": series.TOTAL,
        "route_us": series.FIRST_STAGE,
        "batch_rows": series.BATCH_ROWS,
    }.items():
        assert REQUEST_LOG.names[place] == name
    told = {"request_id": tracing.REQUEST_ID, "entity": tracing.ENTITY, "version": tracing.VERSION}
    told |= {"generation": tracing.GENERATION, "arm": tracing.ARM, "source": tracing.SOURCE}
    told |= {"miss_reason": tracing.REASON, "status": tracing.STATUS, "code": tracing.CODE}
    told |= {"total_us": tracing.TOTAL, "route_us": tracing.ROUTE, "lookup_us": tracing.LOOKUP}
    told |= {"features_us": tracing.FEATURES, "queue_us": tracing.QUEUE, "execute_us": tracing.EXECUTE}
    told |= {"post_us": tracing.POST, "batch_rows": tracing.BATCH_ROWS}
    assert {name: REQUEST_LOG.names[place] for name, place in told.items()} == {name: name for name in told}


def test_rows_lie_in_the_hour_they_are_of(tmp_path: Path) -> None:
    """Model `007` and hour `01` stay text; ids keep all their digits."""
    buffer, data = LogBuffer(["007"], 100), tmp_path / "data"
    with writer(buffer, tmp_path, data):
        buffer.add("007", row("first", "9007199254740993"))
        buffer.add("007", row("second", "07", NOW + timedelta(seconds=1)))
    assert parquet(data) == {
        "model=007/date=2026-11-29/hour=01": ["first"],
        "model=007/date=2026-11-29/hour=02": ["second"],
    }
    (path,) = data.glob("requests/model=007/date=2026-11-29/hour=01/*.parquet")
    assert path.name.startswith("007~")
    assert pq.ParquetFile(path).read()["entity"].to_pylist() == ["9007199254740993"]


def test_a_stream_is_readable_while_it_is_written(tmp_path: Path) -> None:
    buffer = LogBuffer(["m"], 100)
    with writer(buffer, tmp_path, tmp_path / "data"):
        for place in range(3):
            buffer.add("m", row(f"r{place}"))
            eventually(lambda n=place: len(_streamed(tmp_path)) == n + 1)  # type: ignore[misc]
    assert _streamed(tmp_path) == []


def _streamed(folder: Path) -> list[str]:
    return [r["request_id"] for path in (folder / "log").glob("m~*.arrows") for r in stream_rows(path)]


def test_a_bad_value_costs_itself_alone() -> None:
    rows = [
        row("good"),
        row("surrogate", "a\ud83d"),
        row("large", total_us=900, age_ms=1 << 70),
        row("id\udc00", label="\udc00"),
        row("number", lookup_us="soon"),
    ]
    batch, bad = to_batch([*zip(*rows, strict=True)])
    assert bad == 5
    assert batch["request_id"].to_pylist() == ["good", "surrogate", "large", "id\\udc00", "number"]
    assert batch["entity"].to_pylist() == ["a", None, "a", "a", "a"]
    assert batch["age_ms"].to_pylist() == [None] * 5


def test_size_and_age_rotate(tmp_path: Path) -> None:
    for limits in ({"rotate_bytes": 1}, {"rotate_s": 0}):
        buffer, data = LogBuffer(["m"], 100), tmp_path / f"data-{len(limits)}-{next(iter(limits))}"
        with writer(buffer, tmp_path, data, **limits):
            buffer.add("m", row("r"))
            eventually(lambda d=data: parquet(d))  # type: ignore[misc]


def test_a_dead_workers_stream_is_taken_over_up_to_its_last_whole_batch(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    dead = LogStream(folder, "m")
    for place in range(3):
        dead.write(to_batch([*zip(row(f"r{place}"), strict=True)])[0])
    content = dead.path.read_bytes()
    dead.close()
    dead.path.write_bytes(content[:-20])  # cut in its third batch
    with writer(LogBuffer(["m"], 10), tmp_path, tmp_path / "data"):
        eventually(lambda: parquet(tmp_path / "data"))
    assert parquet(tmp_path / "data") == {"model=m/date=2026-11-29/hour=01": ["r0", "r1"]}
    assert list(folder.iterdir()) == []


def test_a_live_workers_stream_is_left_alone(tmp_path: Path) -> None:
    live = LogStream(tmp_path / "log", "m")
    live.write(to_batch([*zip(row("r"), strict=True)])[0])
    assert claim(live.path) is None
    with writer(LogBuffer(["m"], 10), tmp_path, tmp_path / "data"):
        pass
    assert live.path.exists()
    live.close()


def test_a_data_root_that_is_away_costs_nothing(tmp_path: Path) -> None:
    """The stream waits; a conversion that was cut is done again under the same name."""
    data = tmp_path / "data"
    data.write_text("in the way: no folder can be made here")
    buffer = LogBuffer(["m"], 10)
    buffer.add("m", row("r"))
    first = writer(buffer, tmp_path, data)
    with first:
        pass
    assert first.counts.failed_files == 1
    data.unlink()
    with writer(LogBuffer(["m"], 10), tmp_path, data):
        eventually(lambda: parquet(data))
    assert list(parquet(data).values()) == [["r"]]


def test_bounds_in_memory_and_on_disk(tmp_path: Path) -> None:
    buffer = LogBuffer(["m"], 3)
    for place in range(5):
        buffer.add("m", row(f"r{place}"))
    assert buffer.dropped == 2
    data = tmp_path / "data"
    data.write_text("in the way")
    full = writer(buffer, tmp_path, data, rotate_bytes=1, max_bytes=1)
    with full:
        eventually(lambda: full.counts.failed_files)
        buffer.add("m", row("too much"))
    assert full.counts.dropped == 1


def test_an_empty_stream_leaves_no_file(tmp_path: Path) -> None:
    stream = LogStream(tmp_path / "log", "m")
    stream.close()
    with writer(LogBuffer(["m"], 10), tmp_path, tmp_path / "data"):
        eventually(lambda: not list((tmp_path / "log").iterdir()))
    assert parquet(tmp_path / "data") == {}
