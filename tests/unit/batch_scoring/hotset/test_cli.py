"""The commands on logs as somebody has them, from file to report."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from batch_scoring.hotset.__main__ import main


def write_log(path: Path, exponent: float = 1.0, requests: int = 4000) -> Path:
    random = np.random.default_rng(4)
    weights = np.arange(1, 301) ** -exponent
    keys = random.choice(300, requests, p=weights / weights.sum())
    path.write_text("key\n" + "".join(f"{key:04d}\n" for key in keys))
    return path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main([*words, "--json", "--quiet"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_a_backtest_of_a_csv_without_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    found = run(capsys, "backtest", "--log", str(write_log(tmp_path / "log.csv")), "--out", str(out))
    assert found["declined"] is False
    assert found["slots"] == found["log"]["known_entities"] // 20
    assert found["log"]["guessed"] == "entity is column key; in the file's order"
    for name in ("choice", "lru", "lfu", "wtinylfu", "last_window", "static_oracle", "best_split_hindsight"):
        assert 0 < found[name] < 1, name
    assert json.loads((out / "report.json").read_bytes()) == found
    assert (out / "report.png").read_bytes().startswith(b"\x89PNG")


def test_a_choice_is_written_with_its_ids_as_they_were(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "must").write_text("0299\nnever-asked-for\n")
    (tmp_path / "never").write_text("0000\n")
    lists = ["--mandatory", str(tmp_path / "must"), "--block", str(tmp_path / "never")]
    log, out = str(write_log(tmp_path / "log.csv")), str(tmp_path / "out")
    found = run(capsys, "choose", "--log", log, "--out", out, "--budget", "4kB", *lists)
    chosen = pq.read_table(tmp_path / "out" / "hotset.parquet")["entity"].to_pylist()
    assert found["chosen"] == len(chosen) <= 15
    assert chosen[:3] == ["0299", "never-asked-for", "0001"]
    assert "0000" not in chosen
    assert found["bytes"] <= 4000


def test_what_was_written_twice_counts_once_and_the_saving_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{1.79e9 + 60 * (place // 100)},e{place % 10},r{place}" for place in range(4000)]
    again = [lines[7], lines[7], *[lines[8].rpartition(",")[0] + ","] * 2]
    (tmp_path / "log.csv").write_text("\n".join(["time,entity,id", *lines, *again, ""]))
    words = ["--log", str(tmp_path / "log.csv"), "--out", str(tmp_path / "out"), "--id-column", "id"]
    words += ["--max-fraction", "1", "--live-ms", "600", "--price", "2"]
    found = run(capsys, "choose", *words)
    # Those without an id are all counted.
    assert found["log"]["rows_set_aside"] == {"duplicated": 2}
    assert found["log"]["requests"] == 4002
    # 102 requests in the busiest minute, and one a second for each replica.
    assert found["replicas_saved"] == 2
    assert found["money_saved_a_day"] == 2 * 2 * 24


def test_keys_that_never_return_are_declined_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log.csv").write_text("key\n" + "".join(f"{key}\n" for key in range(800)))
    for command in ("choose", "backtest"):
        out = str(tmp_path / command)
        assert run(capsys, command, "--log", str(tmp_path / "log.csv"), "--out", out)["declined"] is True
    assert pq.read_table(tmp_path / "choose" / "hotset.parquet").num_rows == 0
    assert main(["backtest", "--log", str(tmp_path / "log.csv"), "--out", str(tmp_path / "words")]) == 0
    said = capsys.readouterr()
    assert "Precomputing does not pay here" in said.out
    assert "guessed: entity is column key" in said.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--budget", "much"], "is not bytes, as 2GB"),
        (["--budget", "10B"], "the budget holds no entity"),
        (["--refresh", "soon"], "is not a time"),
        (["--max-fraction", "2"], "--max-fraction"),
        (["--entity-column", "who"], "no column who: it has key"),
        (["--live-ms", "0"], "live_ms"),
        (["--block", "/nowhere"], "/nowhere"),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_log(tmp_path / "log.csv", requests=50)
    assert main(["choose", "--log", str(log), "--out", str(tmp_path / "out"), *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
