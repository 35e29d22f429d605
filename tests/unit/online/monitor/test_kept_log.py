"""The kept log over real Parquet files: older schemas, bad files, changes on disk, and what is counted once."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from online.monitor.overview.figures import Figures, read_figures
from online.monitor.requestlog.files import LogFolder
from online.monitor.requestlog.kept import Coverage, KeptLog
from online.monitor.windows import RANGES, Window, window_at
from schemas.arrow import REQUEST_LOG
from tests.support.request_log import hour_folder, log_table, traffic, utc, write_log

NOON = utc("2026-11-29 12:00")
NOW = utc("2026-11-29 12:58:30")
Open = Callable[..., KeptLog]


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[Open]:
    opened: list[KeptLog] = []

    def open_one(model: str = "delay", url: str | None = None) -> KeptLog:
        opened.append(KeptLog(LogFolder(url or str(tmp_path), model), None, threads=1, memory_mb=256))
        return opened[-1]

    yield open_one
    for log in opened:
        log.close()


def look(log: KeptLog, chosen: int = 1) -> tuple[Coverage, Figures, Window]:
    window = window_at(RANGES[chosen], NOW.timestamp())
    coverage = log.refresh(window.start_s, window.end_s, window.now_s)
    return coverage, read_figures(log.counts, window), window


def test_an_empty_folder_is_an_empty_log(open_log: Open) -> None:
    coverage, figures, _ = look(open_log())
    assert coverage == Coverage(0, 0, ())
    assert (figures.requests(), figures.hit_rate, figures.newest_us, figures.all_peak) == (0, None, None, None)


def test_figures_agree_with_the_rows(open_log: Open, tmp_path: Path) -> None:
    table = traffic(NOON - timedelta(hours=5), NOON + timedelta(minutes=58), 20_000)
    write_log(tmp_path, "delay", table)
    coverage, figures, window = look(open_log())

    assert coverage.files == 6
    assert figures.requests() == 20_000
    expected = dict(
        zip(*[c.to_pylist() for c in table["source"].fill_null("error").value_counts().flatten()], strict=True)
    )
    assert {source: figures.requests(source) for source in expected} == expected
    assert figures.hit_rate == pytest.approx((expected["precomputed"] + expected["cached"]) / 20_000)
    live = table.filter(pc.equal(table["source"], "live"))
    for column, stage in (("total_us", "total"), ("execute_us", "execute")):
        found = figures.latencies["live", stage]
        values = sorted(live[column].to_pylist())
        assert found.requests == len(values)
        assert found.p50_ms == pytest.approx(values[len(values) // 2] / 1e3, rel=0.006)
        assert found.p99_ms == pytest.approx(values[int(len(values) * 0.99)] / 1e3, rel=0.02)
    assert ("hit", "execute") not in figures.latencies
    step = (int(NOON.timestamp()) - window.start_s) // window.range.step_s
    quarter = [t for t in table["time"].to_pylist() if NOON <= t < NOON + timedelta(minutes=15)]
    assert sum(counts[step] for counts in figures.steps.values()) == len(quarter)
    assert figures.newest_us == int(max(table["time"].to_pylist()).timestamp() * 1e6)


def test_peaks_are_of_the_busiest_minute_not_of_the_mean(open_log: Open, tmp_path: Path) -> None:
    def at(minute: int, source: str | None, rows: int, status: int = 200) -> list[dict[str, object]]:
        return [{"time": NOON + timedelta(minutes=minute), "source": source, "status": status}] * rows

    rows = (
        at(1, "precomputed", 90)
        + at(2, "live", 30)
        + at(2, None, 9, 503)
        + at(3, None, 500, 404)
        + at(3, "cached", 5)
    )
    write_log(tmp_path, "delay", log_table(rows))
    _, figures, _ = look(open_log())
    assert figures.all_peak is not None
    assert figures.tail_peak is not None
    assert (figures.all_peak.requests, figures.all_peak.minute) == (90, int(NOON.timestamp()) // 60 + 1)
    assert (figures.tail_peak.requests, figures.tail_peak.minute) == (39, int(NOON.timestamp()) // 60 + 2)
    assert figures.tail_peak.per_s == pytest.approx(0.65)


def test_models_and_ids_that_look_like_numbers_stay_text(open_log: Open, tmp_path: Path) -> None:
    ids = ["7", "07", "007", "7.0", "1e5", "100000", "+7", "9007199254740992", "9007199254740993"]
    rows = [{"time": NOON + timedelta(seconds=n), "entity": e, "version": "007"} for n, e in enumerate(ids)]
    write_log(tmp_path, "007", log_table(rows))
    write_log(tmp_path, "7", log_table(rows[:1]))
    log = open_log("007")
    _, figures, window = look(log)
    assert figures.versions == [("007", 9, 9, 0)]
    assert [row[2] for row in log.latest(window.start_s, window.end_s, 20)] == ids[::-1]


def test_older_and_newer_schemas_add_up(open_log: Open, tmp_path: Path) -> None:
    folder = hour_folder(tmp_path, "delay", NOON)
    pq.write_table(log_table([{"time": NOON, "source": "live", "total_us": 2000}]), folder / "now.parquet")
    older = {
        "total_us": pa.array([1000.0, float("nan"), None], pa.float64()),
        "status": pa.array([200, 200, 503], pa.int64()),
        "source": pa.array(["live", "live", None]),
        "entity": pa.array([1, 2, 3], pa.int64()),
        "execute_us": pa.array([5, 6, None], pa.int64()),
        "miss_reason": pa.nulls(3),
        "time": pa.array([NOON] * 3, pa.timestamp("ms", tz="UTC")),
        "brand_new": pa.array(["x", "y", "z"]),
    }
    pq.write_table(pa.table(older), folder / "old.parquet")
    naive = {"time": pa.array([NOON.replace(tzinfo=None)], pa.timestamp("ns")), "source": pa.array(["cached"])}
    pq.write_table(pa.table(naive), folder / "naive.parquet")
    nulls = pa.table(
        {name: pa.nulls(1) for name in REQUEST_LOG.names if name != "time"} | {"time": pa.array([NOON])}
    )
    pq.write_table(nulls, folder / "nulls.parquet")

    log = open_log()
    coverage, figures, window = look(log)
    assert (coverage.files, coverage.set_aside) == (4, ())
    assert (figures.requests("live"), figures.requests("cached"), figures.requests("error")) == (3, 1, 2)
    assert figures.latencies["live", "total"].requests == 2
    assert {row[2] for row in log.latest(window.start_s, window.end_s, 20)} == {"1", "2", "3", "e", None}


def test_a_bad_file_is_set_aside_alone_and_taken_when_repaired(open_log: Open, tmp_path: Path) -> None:
    good = write_log(tmp_path, "delay", log_table([{"time": NOON}] * 3))[0]
    (good.parent / "garbage.parquet").write_bytes(b"not Parquet at all")
    (good.parent / "empty.parquet").write_bytes(b"")
    whole = good.read_bytes()
    cut = good.parent / "cut.parquet"
    cut.write_bytes(whole[: len(whole) // 2])
    (good.parent / "._writing.parquet").write_bytes(b"half")
    (good.parent / "notes.txt").write_text("not a log file")

    log = open_log()
    coverage, figures, window = look(log)
    assert (coverage.files, figures.requests()) == (1, 3)
    assert {Path(one.path).name for one in coverage.set_aside} == {
        "garbage.parquet", "empty.parquet", "cut.parquet",
    }  # fmt: skip
    assert all(one.reason and str(tmp_path) not in one.reason for one in coverage.set_aside)
    assert len(log.latest(window.start_s, window.end_s, 20)) == 3

    cut.write_bytes(whole)
    coverage, figures, _ = look(log)
    assert (coverage.files, figures.requests()) == (2, 6)


def test_a_file_of_another_shape_spoils_no_other(open_log: Open, tmp_path: Path) -> None:
    good = write_log(tmp_path, "delay", log_table([{"time": NOON}] * 3))[0]
    pq.write_table(pa.table({"time": pa.array([{"a": 1}])}), good.parent / "shape.parquet")
    pq.write_table(pa.table({"time": pa.array(["soon", "2026-11-29T12:30:00Z"])}), good.parent / "text.parquet")
    coverage, figures, _ = look(open_log())
    assert figures.requests("precomputed") == 3
    assert figures.requests() == 4
    assert figures.undated + len(coverage.set_aside) == 2


def test_pages_torn_behind_a_good_footer_are_set_aside(open_log: Open, tmp_path: Path) -> None:
    write_log(tmp_path, "delay", log_table([{"time": NOON}] * 3))
    torn = write_log(tmp_path, "delay", traffic(NOON, NOON + timedelta(minutes=50), 2000), "torn")[0]
    content = bytearray(torn.read_bytes())
    content[4 : len(content) * 9 // 10] = b"\xff" * (len(content) * 9 // 10 - 4)
    torn.write_bytes(content)
    coverage, figures, _ = look(open_log())
    assert ([Path(one.path).name for one in coverage.set_aside], figures.requests()) == (["torn.parquet"], 3)


def test_files_that_go_or_change_are_counted_as_they_are_now(open_log: Open, tmp_path: Path) -> None:
    path = write_log(tmp_path, "delay", log_table([{"time": NOON}] * 3))[0]
    log = open_log()
    assert look(log)[1].requests() == 3
    write_log(tmp_path, "delay", log_table([{"time": NOON}] * 5), "b")
    assert look(log)[1].requests() == 8
    pq.write_table(log_table([{"time": NOON}]), path)
    assert look(log)[1].requests() == 6
    path.unlink()
    assert look(log)[1].requests() == 5


def test_rows_outside_the_window_or_without_time_are_left_out(open_log: Open, tmp_path: Path) -> None:
    start = window_at(RANGES[0], NOW.timestamp()).start_s
    folder = hour_folder(tmp_path, "delay", NOON)
    first = utc("1970-01-01 00:00") + timedelta(seconds=start)
    rows = log_table([{"time": first - timedelta(microseconds=1)}, {"time": first}, {"time": NOW}])
    pq.write_table(rows, folder / "a.parquet")
    pq.write_table(pa.table({"source": pa.array(["live"] * 4)}), folder / "undated.parquet")
    _, figures, _ = look(open_log(), chosen=0)
    assert (figures.requests(), figures.undated) == (2, 4)


def test_long_ranges_keep_hours_only_and_agree(open_log: Open, tmp_path: Path) -> None:
    for days in (0, 2, 20):
        end = NOON - timedelta(days=days)
        write_log(tmp_path, "delay", traffic(end - timedelta(minutes=50), end, 1000, days), f"d{days}")
    log = open_log()
    assert [look(log, chosen)[1].requests() for chosen in (0, 1, 2, 3)] == [0, 1000, 2000, 3000]
    figures = look(log, 3)[1]
    assert (
        sum(q.requests for (source, stage), q in figures.latencies.items() if (source, stage) == ("all", "total"))
        == 3000
    )
    later = int((NOW + timedelta(days=2)).timestamp())
    log.refresh(later - 86_400, later, later)
    assert look(log, 3)[1].latencies == figures.latencies
    assert not any((part.latencies.minute % 60).any() for part in log.counts.parts)


def test_a_data_root_on_fsspec_and_names_that_need_quoting(open_log: Open, tmp_path: Path) -> None:
    odd = tmp_path / "it's [1]*"
    path = write_log(odd, "delay", log_table([{"time": NOON}] * 2))[0]
    assert look(open_log(url=str(odd)))[1].requests() == 2
    memory = fsspec.filesystem("memory")
    memory.pipe("/logs/requests/model=delay/date=2026-11-29/hour=12/a.parquet", path.read_bytes())
    try:
        coverage, figures, _ = look(open_log(url="memory://logs"))
    finally:
        memory.rm("/logs", recursive=True)
    assert (coverage.files, figures.requests()) == (1, 2)


def test_rows_imported_from_another_system_count_as_nothing_but_imported(open_log: Open, tmp_path: Path) -> None:
    answered = {"time": NOON, "source": "live", "status": 200, "total_us": 900}
    failed = {"time": NOON, "source": None, "status": 503, "code": "overloaded", "total_us": 50}
    imported = {"time": NOON, "source": None, "status": 200, "total_us": 0, "request_id": "imported"}
    write_log(tmp_path, "delay", log_table([answered, failed, imported, imported, imported]))
    log = open_log()
    _, figures, window = look(log)
    assert (figures.requests(), figures.requests("error"), figures.imported) == (2, 1, 3)
    assert figures.latencies["all", "total"].requests == 2
    assert len(log.latest(window.start_s, window.end_s, 10)) == 2
