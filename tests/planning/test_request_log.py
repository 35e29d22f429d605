"""The busiest minutes behind each store, from real Parquet files as the API writes them."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from online.planning.profile_file import BadFile
from online.planning.request_log import read_log
from tests.planning.conftest import START, rows_in_minute
from tests.support.request_log import log_table, write_log


def test_peaks_behind_each_store_may_be_other_minutes(own_log: Path) -> None:
    found = read_log(str(own_log))
    assert (found.model, found.is_own, found.files) == ("delay", True, 1)
    assert (found.peak.at, found.peak.requests) == (START, 1200)
    assert found.hot_missed_peak is not None
    assert found.cache_missed_peak is not None
    assert (found.hot_missed_peak.at, found.hot_missed_peak.requests) == (START + timedelta(minutes=1), 400)
    # Live answers and the five that failed and would have needed a replica.
    assert found.cache_missed_peak.requests == 300
    assert found.requests == 1200 + 900 + 1
    assert found.left_out == 40
    assert found.hot_share == pytest.approx(1501 / 2101)
    assert found.cache_share == pytest.approx(180 / 600)
    assert found.span_s == 3600


def test_times_of_hits_and_of_live_answers(own_log: Path) -> None:
    found = read_log(str(own_log))
    assert found.hit.quantile_ms(0.5) == pytest.approx(1.5, rel=0.01)
    assert found.live.quantile_ms(0.99) == pytest.approx(21, rel=0.01)
    assert found.outside is not None
    assert found.outside.fixed_ms == pytest.approx(2, rel=0.01)


def test_what_each_row_of_a_batch_adds_is_read_from_the_log(tmp_path: Path) -> None:
    rows = [
        row
        for batch_rows, outside_us in ((1, 2_100), (2, 2_200), (16, 3_600), (32, 5_200))
        for row in rows_in_minute(
            START,
            {"live": 100},
            total_us=20_000 + outside_us,
            queue_us=5_000,
            batch_us=1_000,
            execute_us=14_000,
            batch_rows=batch_rows,
        )
    ]
    write_log(tmp_path, "delay", log_table(rows))
    found = read_log(str(tmp_path)).outside
    assert found is not None
    assert found.fixed_ms == pytest.approx(2.0, rel=0.02)
    assert found.row_ms == pytest.approx(0.1, rel=0.05)


def test_another_systems_log_tells_when_and_for_which_entities(imported_log: Path, hot_set: Path) -> None:
    plain = read_log(str(imported_log))
    assert (plain.is_own, plain.peak.requests) == (False, 600)
    assert (plain.hot_missed_peak, plain.cache_missed_peak, plain.hot_share) == (None, None, None)
    with_set = read_log(str(imported_log), hot_set=str(hot_set))
    assert with_set.hot_missed_peak is not None
    assert with_set.hot_missed_peak.requests == 120
    assert with_set.cache_missed_peak is None


def test_a_window_of_the_log(own_log: Path) -> None:
    later = read_log(str(own_log), since=START + timedelta(minutes=1), until=START + timedelta(minutes=2))
    assert (later.requests, later.peak.requests) == (900, 900)
    with pytest.raises(BadFile, match="no request with a time"):
        read_log(str(own_log), since=START + timedelta(days=1))


def test_one_of_several_models(tmp_path: Path) -> None:
    for model, count in (("delay", 3), ("price", 5)):
        write_log(tmp_path, model, log_table(rows_in_minute(START, {"live": count})))
    with pytest.raises(BadFile, match="several models: delay, price; name one with --model"):
        read_log(str(tmp_path))
    assert read_log(str(tmp_path), "price").requests == 5
    assert read_log(str(tmp_path / "requests" / "model=delay")).requests == 3
    with pytest.raises(BadFile, match="no log of the model other there, but of delay, price"):
        read_log(str(tmp_path), "other")


def test_an_older_log_lacks_columns(tmp_path: Path) -> None:
    table = log_table(rows_in_minute(START, {"live": 4}))
    pq.write_table(table.select(["time", "source", "status", "total_us"]), tmp_path / "old.parquet")
    found = read_log(str(tmp_path))
    assert found.requests == 4
    assert found.live.quantile_ms(0.5) == pytest.approx(1, rel=0.01)
    assert found.outside is None


def test_what_is_no_request_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no Parquet files there"):
        read_log(str(tmp_path))
    (tmp_path / "a.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(BadFile, match=r"a\.parquet: "):
        read_log(str(tmp_path))
    pq.write_table(pa.table({"entity": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(BadFile, match="no column `time`: not a request log"):
        read_log(str(tmp_path))
