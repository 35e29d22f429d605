"""`python -m online.planning`: every question, end to end from files, in three forms, and nonsense."""

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from online.planning.__main__ import COMMANDS, main
from tests.planning.conftest import START, rows_in_minute, write_profile
from tests.support.request_log import log_table, write_log

DEVICE = ["--tau0", "6", "--alpha", "1.2ms"]


def ask(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main([*words, "--json"]) == 0
    document: dict[str, object] = orjson.loads(capsys.readouterr().out)
    return document


def test_a_plan_from_this_systems_own_files(
    capsys: pytest.CaptureFixture[str], profile: Path, own_log: Path
) -> None:
    words = ["plan", "--profile", str(profile), "--log", str(own_log), "--p99", "50ms", "--growth", "100"]
    found = ask(capsys, *words, "--price-per-hour", "0.5", "--budget", "$1,500")
    assert (found["model"], found["requests"], found["busiest_minute"]) == ("delay", 2101, "2026-11-28T14:00Z")
    assert found["peak_per_s"] == 2000
    assert found["outside_ms"] == pytest.approx(2, rel=0.01)
    fleets = found["fleets"]
    assert isinstance(fleets, list)
    assert [fleet["scenario"] for fleet in fleets] == ["all live", "hot set", "hot set and cache"]
    # The busiest minutes behind each store, 1200, 400 and 300 requests, a hundredfold.
    assert [fleet["live_per_s"] for fleet in fleets] == pytest.approx([2000, 666.67, 500], rel=1e-4)
    # 14 rows within (50 - 2) / 2 ms are 614 a second, of which 0.6.
    assert [fleet["replicas"] for fleet in fleets] == [6, 2, 2]
    assert [fleet["is_in_budget"] for fleet in fleets] == [False, True, True]
    assert fleets[0]["cost_per_month"] == pytest.approx(6 * 0.5 * 730)
    assert found["affordable_replicas"] == 4
    for fleet in fleets:
        assert 7.2 < fleet["p50_ms"] < fleet["p99_ms"] <= 50
    assert fleets[1]["cold"]["replicas"] == 6
    assert fleets[1]["cold"]["in_time_share"] < 0.9


def test_a_plan_counts_what_each_row_of_a_batch_adds_outside(
    capsys: pytest.CaptureFixture[str], profile: Path, tmp_path: Path
) -> None:
    rows = [
        row
        for batch_rows in (1, 4, 24)
        for row in rows_in_minute(
            START, {"live": 100}, total_us=12_000 + 200 * batch_rows, execute_us=10_000, queue_us=0, batch_us=0,
            batch_rows=batch_rows,
        )
    ]  # fmt: skip
    write_log(tmp_path, "delay", log_table(rows))
    words = ["plan", "--profile", str(profile), "--log", str(tmp_path), "--p99", "50ms", "--growth", "300"]
    found = ask(capsys, *words)
    assert found["outside_ms"] == pytest.approx(2, rel=0.02)
    assert found["outside_row_ms"] == pytest.approx(0.2, rel=0.05)
    # The log's 10 ms beside 7.2, 10.8 and 34.8 of the profile.
    assert found["device_over_profile"] == pytest.approx((10 / 7.2 + 10 / 10.8 + 10 / 34.8) / 3 - 1, rel=0.05)
    # 2 (6 + 1.2 b) + 0.2 b within 48.
    assert found["batch"]["rows"] == 13  # type: ignore[index]
    assert main(words) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "2 ms and 0.2" in told
    assert "Warning: the log's batches took 13% shorter than the profile says" in told
    without = ask(capsys, *words, "--outside", "2ms")
    assert (without["outside_ms"], without["outside_row_ms"]) == (2.0, 0.0)
    assert without["batch"]["rows"] == 15  # type: ignore[index]
    assert without["fleets"][0]["replicas"] < found["fleets"][0]["replicas"]  # type: ignore[index]


def test_a_plan_from_another_systems_log(
    capsys: pytest.CaptureFixture[str], profile: Path, imported_log: Path, hot_set: Path
) -> None:
    words = ["plan", "--profile", str(profile), "--log", str(imported_log), "--p99", "50ms", "--growth", "200"]
    assert main(words) == 0
    assert "hits are not known" in capsys.readouterr().out
    found = ask(capsys, *words, "--hot-set", str(hot_set))
    assert isinstance(found["fleets"], list)
    assert [fleet["live_per_s"] for fleet in found["fleets"]] == pytest.approx([2000, 400])


def test_size_says_what_plan_says_for_the_same_numbers(
    capsys: pytest.CaptureFixture[str], profile: Path, own_log: Path
) -> None:
    plan = ask(capsys, "plan", "--profile", str(profile), "--log", str(own_log), "--p99", "50", "--outside", "1",
               "--hit-share", "0.5", "--growth", "60")  # fmt: skip
    size = ask(capsys, "size", "--profile", str(profile), "--peak-per-s", "1200", "--p99", "0.05s",
               "--outside", "1", "--hit-share", "0.5", "--requests-per-month", str(plan["requests_per_month"]),
               "--hit", "1.5")  # fmt: skip
    assert isinstance(plan["fleets"], list)
    assert isinstance(size["fleets"], list)
    for one, other in zip(plan["fleets"], size["fleets"], strict=True):
        # A hit's time is from a histogram in the log.
        assert one.pop("all_mean_ms") == pytest.approx(other.pop("all_mean_ms"), rel=0.01)
        assert one == other


@pytest.mark.parametrize("question", ["plan", "size"])
def test_whether_the_weights_fit_is_part_of_the_answer(
    capsys: pytest.CaptureFixture[str], profile: Path, own_log: Path, question: str
) -> None:
    traffic = ["--log", str(own_log)] if question == "plan" else ["--peak-per-s", "20"]
    words = [question, "--profile", str(profile), "--p99", "50ms", *traffic]
    assert ask(capsys, *words)["weights_share_of_memory"] is None
    assert ask(capsys, *words, "--weight-gb", "12", "--memory-gb", "16")["weights_share_of_memory"] == 0.75
    assert main([*words, "--weight-gb", "20", "--memory-gb", "16"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "The weights do not fit: 125% of a card's memory" in told
    # How sure the profile's line is, as well.
    assert "tau0 6 ± " in told
    assert main([*words, "--weight-gb", "20"]) == 2
    assert "memory_gb is missing" in capsys.readouterr().err


def test_a_profile_that_no_line_fits_is_told_and_planned_with_as_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, own_log: Path
) -> None:
    curve = write_profile(tmp_path / "p.json", {1: 10.0, 2: 10.0, 4: 10.1, 8: 10.2, 16: 30.0, 32: 90.0})
    words = ["--profile", str(curve)]
    assert main(["batch", *words, "--rate-per-s", "200"]) == 0
    assert "the linear model does not fit" in capsys.readouterr().out
    found = ask(capsys, "batch", *words, "--rate-per-s", "200")
    assert found["is_linear"] is False
    assert isinstance(found["rates"], list)
    assert found["rates"][0]["textbook_mean_ms"] is None
    assert found["rates"][0]["simulated_mean_ms"] > 10
    assert ask(capsys, "size", *words, "--peak-per-s", "500", "--p99", "50")["batch"]["rows"] == 8  # type: ignore[index]


def test_batch_sets_textbook_bound_and_simulation_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    found = ask(capsys, "batch", *DEVICE, "--rate-per-s", "600", "--rate-per-s", "900", "--deadline", "100ms")
    assert found["knee_rows"] == 23
    assert isinstance(found["rates"], list)
    steady, saturated = found["rates"]
    assert steady["textbook_mean_ms"] == pytest.approx(32.1, abs=0.05)
    assert steady["bound_mean_ms"] == pytest.approx(35.5, abs=0.05)
    assert steady["simulated_mean_ms"] == pytest.approx(35.4, abs=0.6)
    assert saturated["bound_mean_ms"] is None
    assert saturated["simulated_dropped_share"] > 0.1
    assert saturated["simulated_p99_ms"] <= 100


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["blend", "--hit-share", "0.7", "--hit", "2", "--miss", "45"], "effective", 15.5),
        (["cascade", "--answered-share", "0.85", "--first", "3", "--second", "60"], "effective", 12.0),
        (
            ["serverless", "--memory-gb=3", "--duration=0.5s", "--machines=2", "--price-per-request=0"],
            "break_even_rate_per_s", 7.556,
        ),
        (["memory", "--card-memory-gb", "80", "--tensor-parallel", "4"], "conversations", 134),
        (
            ["economics", "--training-cost", "10000", "--price-per-request", "0.001", "--cost-per-million", "200"],
            "requests", 12_500_000,
        ),
    ],
)  # fmt: skip
def test_questions_with_one_answer(
    capsys: pytest.CaptureFixture[str], words: list[str], field: str, value: float
) -> None:
    assert ask(capsys, *words)[field] == pytest.approx(value, rel=1e-3)


def test_queues_pipelines_and_strategies(capsys: pytest.CaptureFixture[str]) -> None:
    queues = ask(capsys, "queues", "--rate-per-s", "600", "--service", "7.2ms")["replicas"]
    assert isinstance(queues, list)
    assert (queues[0]["replicas"], queues[0]["mm1_wait_ms"]) == (5, pytest.approx(45.7, abs=0.05))
    pipeline = ask(capsys, "pipeline", "--stages", "4", "--micro-batches", "4")
    assert pipeline["bubbles"][0]["idle_share"] == pytest.approx(3 / 7)  # type: ignore[index]
    words = ["--rate-per-s", "2000", "--p99", "50ms", "--weight-gb", "1", "--memory-gb", "16"]
    assert ask(capsys, "strategy", *DEVICE, *words)["recommended"] == "replicas"


def test_markdown_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "--stages", "4", "--micro-batches", "4", "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:5] == [
        "| stages | 4 micro-batches | fewest for 10% |",
        "| --- | ---: | ---: |",
        "| 4 | 43% | 27 |",
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["batch", *DEVICE, "--rate-per-s", "-1"], "rate_per_s is -1.0: allowed is a finite number above 0"),
        (["batch", "--tau0", "6"], "--profile is missing: allowed is a profile, or both --tau0 and --alpha"),
        (["size", *DEVICE, "--peak-per-s", "10", "--p99", "5ms"], "p99_ms is 5: allowed is at least 7.2"),
        (
            ["size", *DEVICE, "--peak-per-s", "10", "--p99", "50ms", "--hit-share", "7"],
            "hit_share is 7.0: allowed is a share from 0 to 1",
        ),
        (["memory", "--card-memory-gb", "0"], "card_memory_gb is 0.0: allowed is a finite number above 0"),
        (
            ["economics", "--training-cost", "1", "--price-per-request", "1"],
            "cost_per_request is None: allowed is one of",
        ),
        (["batch", "--profile", "/nowhere.json"], "/nowhere.json: No such file or directory"),
    ],
)
def test_nonsense_is_told_by_its_field_and_the_range(
    capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert main(words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"planning: {says}" in told.err


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (b"{}", "model: Field required"),
        (b"no JSON", "the document: "),
        (
            b'{"model":"m","version":"1","device":"cpu","measured":[{"rows":0,"batch_ms":1}]}',
            "measured.0.rows: Input should be greater than or equal to 1",
        ),
        (
            b'{"model":"m","version":"1","device":"cpu","measured":[{"rows":1,"batch_ms":1}]}',
            "rows is [1]: allowed is at least 4 different batch sizes",
        ),
    ],
)
def test_a_profile_that_is_none(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, document: bytes, says: str
) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(document)
    assert main(["batch", "--profile", str(path)]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.NAME)
def test_every_question_has_help_with_an_example_that_runs(
    capsys: pytest.CaptureFixture[str], profile: Path, own_log: Path, hot_set: Path, command: object
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command.NAME, "--help"])  # type: ignore[attr-defined]
    assert ended.value.code == 0
    assert "python -m online.planning" in capsys.readouterr().out
    files = {
        "profile.json": str(profile),
        ".hotset/data/requests": str(own_log),
        "requests/": str(own_log),
        "hotset.parquet": str(hot_set),
    }
    for line in command.EPILOG.splitlines()[1:]:  # type: ignore[attr-defined]
        words = line.split()[3:]
        assert main([files.get(word, word) for word in words]) == 0, line
        assert capsys.readouterr().out


def test_it_runs_as_a_command_without_the_processes_libraries() -> None:
    code = (
        "import sys; from online.planning.__main__ import main; "
        "main(['pipeline', '--json']); "
        "print(sorted(name for name in ('torch', 'fastapi', 'redis', 'duckdb', 'pyspark') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
