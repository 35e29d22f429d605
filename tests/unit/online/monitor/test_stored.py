"""What a site that starts again still knows: nothing is read twice, and nothing damaged or foreign is believed."""

import json
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from batch_scoring.requestlog.__main__ import main as upkeep
from batch_scoring.requestlog.compact import compact_model
from batch_scoring.requestlog.retention import old_days, remove_days
from online.monitor.overview.figures import Figures, read_figures
from online.monitor.requestlog import sql, stored
from online.monitor.requestlog.files import LogFolder
from online.monitor.requestlog.kept import Coverage, KeptLog
from online.monitor.requestlog.stored import StoredDays
from online.monitor.windows import RANGES, window_at
from schemas.names import requests_model_path
from schemas.retention import RETENTION_FILE
from tests.support.request_log import hour_folder, log_table, traffic, utc, write_log

NOW = utc("2026-11-29 12:58:30")
DAYS_BACK = (0, 1, 3)
ROWS = 400
Start = Callable[..., KeptLog]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A site's log as it is after a start; the one before has ended."""
    running: list[KeptLog] = []

    def start_one(root: Path = tmp_path, state: Path = tmp_path / "state") -> KeptLog:
        while running:
            running.pop().close()
        running.append(KeptLog(LogFolder(str(root), "delay"), None, 1, 256, StoredDays(state, str(root))))
        return running[-1]

    yield start_one
    for log in running:
        log.close()


@pytest.fixture
def written(tmp_path: Path) -> list[Path]:
    """An hour's file of each of some days, the newest among the young."""
    paths = []
    for days in DAYS_BACK:
        end = NOW - timedelta(days=days)
        paths += write_log(tmp_path, "delay", traffic(end - timedelta(minutes=50), end, ROWS, days), f"d{days}")
    return paths


def look(log: KeptLog, later: timedelta = timedelta(0)) -> tuple[Coverage, Figures]:
    window = window_at(RANGES[2], (NOW + later).timestamp())
    coverage = log.refresh(window.start_s, window.end_s, window.now_s)
    return coverage, read_figures(log.counts, window)


def make_unreadable(paths: list[Path]) -> None:
    """With the size, the time and the inode as they were: whoever reads one again sets it aside."""
    for path in paths:
        stat = path.stat()
        with path.open("r+b") as file:
            file.write(b"\xff" * stat.st_size)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_a_site_that_starts_again_reads_nothing_again(start: Start, written: list[Path]) -> None:
    before = look(start())
    make_unreadable(written)
    after = look(start())
    assert after == before
    assert after[1].requests() == ROWS * len(DAYS_BACK)


def test_it_reads_what_came_meanwhile_and_only_that(start: Start, written: list[Path], tmp_path: Path) -> None:
    look(start())
    make_unreadable(written)
    write_log(tmp_path, "delay", traffic(NOW - timedelta(minutes=30), NOW, 70, 9), "new")
    coverage, figures = look(start())
    assert (coverage.set_aside, figures.requests()) == ((), ROWS * len(DAYS_BACK) + 70)


def test_hours_that_got_old_meanwhile_are_as_coarse_as_others(start: Start, written: list[Path]) -> None:
    before = look(start())[1]
    log = start()
    _, after = look(log, timedelta(hours=40))
    assert sum(after.requests(source) for source in after.steps) == before.requests()
    assert not any((part.latencies.minute % 60).any() for part in log.counts.parts)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "another version", "another way of counting"])
def test_what_is_damaged_or_older_is_counted_anew(
    start: Start, written: list[Path], tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = look(start())
    start()
    [newest] = (tmp_path / "state").glob("date=2026-11-29.figures")
    raw = newest.read_bytes()
    middle = len(raw) * 2 // 3
    if damage == "cut":
        newest.write_bytes(raw[:middle])
    elif damage == "flipped":
        newest.write_bytes(raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :])
    elif damage == "empty":
        newest.write_bytes(b"")
    elif damage == "another version":
        monkeypatch.setattr(stored, "STORED_VERSION", stored.STORED_VERSION + 1)
    else:
        monkeypatch.setattr(sql, "FOLD_MINUTES", sql.FOLD_MINUTES + " ")
    assert look(start()) == before
    monkeypatch.undo()
    assert look(start()) == before


def test_figures_of_another_log_are_not_taken_for_this_ones(
    start: Start, written: list[Path], tmp_path: Path
) -> None:
    look(start())
    other = tmp_path / "other"
    write_log(other, "delay", log_table([{"time": NOW}] * 3))
    assert look(start(other))[1].requests() == 3


def test_a_kill_in_the_middle_of_keeping_leaves_what_was_kept(
    start: Start, written: list[Path], tmp_path: Path
) -> None:
    before = look(start())
    start()
    (tmp_path / "state" / ".date=2026-11-29.figures").write_bytes(b'{"version": 1')
    make_unreadable(written)
    assert look(start()) == before


def test_compaction_and_deletion_meanwhile_are_seen(start: Start, written: list[Path], tmp_path: Path) -> None:
    old = NOW - timedelta(days=3)
    write_log(tmp_path, "delay", traffic(old - timedelta(minutes=50), old, ROWS, 7), "more")
    _, before = look(start())
    start()
    compact_model(tmp_path, "delay", NOW, timedelta(hours=1), 64_000_000)
    assert look(start())[1] == before
    for path in hour_folder(tmp_path, "delay", NOW - timedelta(days=1)).glob("*.parquet"):
        path.unlink()
    assert look(start())[1].requests() == before.requests() - ROWS


def test_what_retention_deletes_stays_in_the_figures(start: Start, written: list[Path], tmp_path: Path) -> None:
    log = start()
    _, before = look(log)
    remove_days(tmp_path, "delay", old_days(tmp_path, "delay", 2, NOW))
    assert not written[-1].exists()
    assert look(log)[1] == before
    coverage, figures = look(start())
    assert (coverage.waiting, figures) == (0, before)


def test_unless_retention_says_that_they_go_too(start: Start, written: list[Path], tmp_path: Path) -> None:
    log = start()
    _, before = look(log)
    remove_days(tmp_path, "delay", old_days(tmp_path, "delay", 2, NOW), with_figures=True)
    assert look(log)[1].requests() == before.requests() - ROWS
    assert look(start())[1].requests() == before.requests() - ROWS
    start()
    assert {path.name for path in (tmp_path / "state").iterdir()} == {
        "date=2026-11-28.figures", "date=2026-11-29.figures",
    }  # fmt: skip


def test_a_day_that_goes_otherwise_goes_from_the_figures(
    start: Start, written: list[Path], tmp_path: Path
) -> None:
    log = start()
    _, before = look(log)
    remove_days(tmp_path, "delay", old_days(tmp_path, "delay", 2, NOW))
    for path in written[1:2]:  # a day that retention keeps
        path.unlink()
    assert look(log)[1].requests() == before.requests() - ROWS


def test_the_command_says_what_becomes_of_the_figures(tmp_path: Path) -> None:
    write_log(tmp_path, "delay", log_table([{"time": utc("2026-01-05 10:00")}]))
    said = tmp_path / requests_model_path("delay") / RETENTION_FILE
    call = ["retention", "--days", "30", "--delete", "--data-url", str(tmp_path)]
    assert upkeep(call) == 0
    assert json.loads(said.read_bytes()) == {"log_from": "2026-01-06", "figures_from": "0001-01-01"}
    write_log(tmp_path, "delay", log_table([{"time": utc("2026-01-02 10:00")}]))
    assert upkeep([*call, "--figures"]) == 0
    assert json.loads(said.read_bytes()) == {"log_from": "2026-01-06", "figures_from": "2026-01-06"}
    said.write_bytes(b"{")
    assert look_at_nothing(tmp_path) == 0


def look_at_nothing(root: Path) -> int:
    """Requests of a log whose retention's words cannot be read: no reason to fail."""
    log = KeptLog(LogFolder(str(root), "delay"), None, 1, 256)
    try:
        return look(log)[1].requests()
    finally:
        log.close()
