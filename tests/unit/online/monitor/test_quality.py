"""What the Quality page reads and draws: drift results of any window, the parity log, histograms."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest

from online.monitor.quality.drift import alarms_table, drift_table, read_drift
from online.monitor.quality.histograms import drawn
from online.monitor.quality.parity import over_time_table, parity_of, parity_table
from online.monitor.quality.parity_log import ParityLog
from online.monitor.windows import RANGES, window_at
from schemas.arrow import PARITY
from schemas.drift import HITS, TAIL, read_report, read_reports, results_path
from tests.support.watched import compared_row, compared_table, sample, write_compared, write_drift

NOW = datetime(2026, 11, 29, 12, 30, tzinfo=UTC)
WINDOW = window_at(RANGES[1], NOW.timestamp())
MIDNIGHT = NOW.replace(hour=0, minute=0)


def cells(table: object, name: str) -> dict[str, object]:
    rows = table.as_json()["rows"]  # type: ignore[attr-defined]
    found: dict[str, object] = next(row for row in rows if row["name"] == name)
    return found


def test_reports_are_read_newest_first_and_what_is_none_is_left_out(tmp_path: Path) -> None:
    for days in (9, 0, 4):
        write_drift(tmp_path, "delay", MIDNIGHT - timedelta(days=days), {TAIL: sample(300, days)})
    folder = tmp_path / "drift" / "model=delay"
    (folder / "date=2026-11-28" / "half.json").write_bytes(b'{"model": "del')
    (folder / "date=2026-11-28" / "newer.json").write_bytes(b'{"drift_version": 99}')
    ends = [report.window_end for report in read_reports(str(tmp_path), "delay", 2)]
    assert ends == [MIDNIGHT, MIDNIGHT - timedelta(days=4)]
    since = (MIDNIGHT - timedelta(days=5)).date()
    assert len(read_reports(str(tmp_path), "delay", 9, since)) == 2
    assert read_reports(str(tmp_path), "other", 9) == []
    window = (MIDNIGHT - timedelta(days=11), MIDNIGHT - timedelta(days=4))
    found = read_report(str(tmp_path), "delay", window)
    assert found is not None
    assert found.window == window
    assert read_report(str(tmp_path), "delay", (window[0], NOW)) is None


def test_populations_stand_apart_with_value_and_threshold(tmp_path: Path) -> None:
    write_drift(tmp_path, "delay", MIDNIGHT, {HITS: sample(1_000, 1), TAIL: sample(1_000, 2, shift=700.0)})
    results = read_drift(str(tmp_path), "delay")
    hits, tail = (cells(drift_table(results, one), "distance") for one in (HITS, TAIL))
    assert (hits["level"], tail["level"]) == ("fine", "alarm")
    assert float(str(tail["psi"])) > float(str(tail["psi_threshold"]))
    assert hits["psi_threshold"] == tail["psi_threshold"], "of as many rows"
    assert drift_table(results, TAIL).rows[0][0] == "distance"
    assert {row[2] for row in alarms_table(results).rows} == {TAIL}


def test_results_whose_histograms_are_gone_or_damaged_are_told(tmp_path: Path) -> None:
    report = write_drift(tmp_path, "delay", MIDNIGHT, {TAIL: sample(300, 1)})
    path = tmp_path / f"{results_path('delay', report.window)}.parquet"
    path.write_bytes(b"PAR1 and nothing else PAR1")
    results = read_drift(str(tmp_path), "delay")
    assert results.newest is not None
    assert results.rows == ()
    assert "ArrowInvalid" in str(results.problem)
    path.unlink()
    assert "FileNotFoundError" in str(read_drift(str(tmp_path), "delay").problem)
    assert read_drift(str(tmp_path), "never").problem is None


def test_histograms_add_up_to_all_rows_of_both_sides(tmp_path: Path) -> None:
    write_drift(tmp_path, "delay", MIDNIGHT, {TAIL: sample(1_000, 2, shift=500.0, newcomers=30)})
    found = {one.row.name: one for one in drawn(read_drift(str(tmp_path), "delay").of(TAIL), 1)}
    assert next(iter(found)) == "distance"
    for one in found.values():
        for side in (1, 2):
            assert sum(float(str(row[side])) for row in one.table.rows) == pytest.approx(1.0), one.row.name
        assert one.chart.steps == len(one.table.rows)
    airline = {str(row[0]): row for row in found["airline"].table.rows}
    assert airline["new: 'NK'"][4] == 30
    assert found["gate"].table.rows[-1][:2] == ["null", 0.02]


def test_what_has_too_few_rows_is_not_drawn(tmp_path: Path) -> None:
    write_drift(tmp_path, "delay", MIDNIGHT, {TAIL: sample(40, 2)})
    results = read_drift(str(tmp_path), "delay")
    assert drawn(results.of(TAIL), 1) == []
    assert cells(drift_table(results, TAIL), "distance")["found"] == (
        "too few rows: 40 sampled rows; 100 are needed"
    )


def write_stream(folder: Path, name: str, rows: list[dict[str, object]], cut: bool = False) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.arrows"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, PARITY) as writer:
        for row in rows:
            writer.write_table(compared_table([row]))
    if cut:
        path.write_bytes(path.read_bytes()[:-40])
    return path


def test_a_compared_hit_is_counted_once_from_stream_to_parquet(tmp_path: Path) -> None:
    log, streams = tmp_path / "data", tmp_path / "parity"
    early, late = NOW - timedelta(hours=1), NOW
    rows = [compared_row(early, 1), compared_row(late, 2, kind="numeric_over"), compared_row(late, 3)]
    reader = ParityLog(str(log), "delay", streams)
    assert reader.read(WINDOW).counts == []
    write_stream(streams, "delay~s1", rows)
    write_stream(streams, "other~s1", rows)
    assert parity_of(reader.read(WINDOW)).kinds == {"equal": 2, "numeric_over": 1}
    # The first hour's rows have become Parquet, and the stream is not gone yet.
    write_compared(log, "delay", rows[:1], name="delay~s1")
    assert parity_of(reader.read(WINDOW)).kinds == {"equal": 2, "numeric_over": 1}
    write_compared(log, "delay", rows[1:], name="delay~s1")
    (streams / "delay~s1.arrows").unlink()
    found = reader.read(WINDOW)
    assert parity_of(found).kinds == {"equal": 2, "numeric_over": 1}
    assert [row["entity"] for row in found.differences] == ["e2"]
    assert (found.newest, found.files) == (late, 2)


def test_a_cut_stream_is_read_up_to_the_cut_and_a_damaged_file_is_counted(tmp_path: Path) -> None:
    write_stream(tmp_path / "parity", "delay~s1", [compared_row(NOW, n) for n in range(3)], cut=True)
    path = write_compared(tmp_path, "delay", [compared_row(NOW, 9)])
    path.with_name("damaged.parquet").write_bytes(b"not Parquet")
    path.with_name(".half.parquet.part").write_bytes(b"")
    found = ParityLog(str(tmp_path), "delay", tmp_path / "parity").read(WINDOW)
    assert found.unread == 1
    assert parity_of(found).compared == 3


def test_rows_outside_the_window_are_no_part_of_it_and_a_file_is_read_once(tmp_path: Path) -> None:
    reader = ParityLog(str(tmp_path), "delay", None)
    old, new = NOW - timedelta(days=3), NOW - timedelta(minutes=7)
    path = write_compared(tmp_path, "delay", [compared_row(old, 1, kind="numeric")])
    write_compared(tmp_path, "delay", [compared_row(new, 2, kind=None, skipped="behind")])
    week = window_at(RANGES[2], NOW.timestamp())
    assert parity_of(reader.read(week)).kinds == {"numeric": 1}
    found = reader.read(WINDOW)
    assert (parity_of(found).kinds, parity_of(found).skipped) == ({}, {"behind": 1})
    assert parity_table(parity_of(found)).rows == over_time_table(found, WINDOW).rows == []
    # Bytes that nobody reads again: the size and the time are what they were.
    stat = path.stat()
    path.write_bytes(b"x" * stat.st_size)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert parity_of(reader.read(week)).kinds == {"numeric": 1}
    # A day that is over is listed once a minute.
    path.unlink()
    assert parity_of(reader.read(week)).kinds == {"numeric": 1}
    assert parity_of(ParityLog(str(tmp_path), "delay", None).read(week)).kinds == {}


def test_each_step_has_the_hits_of_its_time(tmp_path: Path) -> None:
    rows = [compared_row(NOW - timedelta(minutes=15 * n), n) for n in range(4)]
    for number, row in enumerate(rows):
        write_compared(tmp_path, "delay", [row], name=f"f{number}")
    table = over_time_table(ParityLog(str(tmp_path), "delay", None).read(WINDOW), WINDOW)
    counted = {str(row[0]): row[1] for row in table.rows if row[-1]}
    assert counted == {str(NOW - timedelta(minutes=15 * n)): 1 for n in range(4)}


def test_an_object_store_is_read_alike(tmp_path: Path) -> None:
    report = write_drift(tmp_path, "delay", MIDNIGHT, {TAIL: sample(300, 1, has_gates=False)})
    write_compared(tmp_path, "delay", [compared_row(NOW, 1), compared_row(NOW, 2, kind="numeric_over")])
    store = fsspec.filesystem("memory")
    store.put(f"{tmp_path}/", "/quality/", recursive=True)
    try:
        results = read_drift("memory://quality", "delay")
        assert results.newest == report
        assert cells(drift_table(results, TAIL), "gate")["level"] == "alarm"
        found = ParityLog("memory://quality", "delay", None).read(WINDOW)
        assert parity_of(found).kinds == {"equal": 1, "numeric_over": 1}
        assert read_drift("memory://nothing", "delay").problem is None
        assert ParityLog("memory://nothing", "delay", None).read(WINDOW).problem is None
    finally:
        store.rm("/quality", recursive=True)
