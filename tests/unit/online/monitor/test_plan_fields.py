"""What stands in the Plan page's fields, what a query says of them, and what nonsense is told."""

import shlex
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from online.monitor.plan.fields import EXAMPLES, FIELDS, Given, enter, read, written
from online.monitor.plan.page import PAGE, ask
from online.monitor.plan.prefill import PROFILES
from online.monitor.sources import Sources
from online.monitor.windows import DEFAULT_RANGE, window_at
from online.planning.__main__ import main
from online.planning.checks import OutOfRange

BY_NAME = {one.name: one for one in FIELDS}
WINDOW = window_at(DEFAULT_RANGE, 1_780_000_000)


def test_every_field_has_an_example_within_its_range() -> None:
    assert set(EXAMPLES) == set(BY_NAME)
    for name, example in EXAMPLES.items():
        assert read(BY_NAME[name], written(example.value)) == example.value


@pytest.mark.parametrize("one", FIELDS, ids=lambda one: one.name)
def test_nonsense_is_told_by_its_field_and_the_range(one: object) -> None:
    field = BY_NAME[one.name]  # type: ignore[attr-defined]
    for text in ("abc", "nan", "inf", "-1", f"{field.high * 10:.17g}", "1e999", "1,5", "<b>"):
        with pytest.raises(OutOfRange, match=rf"{field.name} is .*: allowed is a .*number from ") as told:
            read(field, text)
        assert told.value.field == field.name
    assert field.is_optional or not written(None)


def test_part_of_a_row_is_no_batch() -> None:
    with pytest.raises(OutOfRange, match="allowed is a whole number from 1 to 4,096"):
        read(BY_NAME["max_batch_rows"], "2.5")


@given(st.floats(0.01, 1e6))
def test_what_is_written_reads_back_the_same(value: float) -> None:
    once = float(written(value))
    assert read(BY_NAME["peak_per_s"], written(once)) == once
    assert once == pytest.approx(value, rel=1e-11)


def test_a_query_comes_before_what_is_measured_and_nothing_is_something() -> None:
    before = {**EXAMPLES, "hit_share": Given(0.8, "the log"), "tau0_ms": Given(3.0, "a node")}
    plain = enter({}, before)
    assert (plain.values["hit_share"], plain.values["tau0_ms"], plain.own) == (0.8, 3.0, frozenset())
    typed = enter({"tau0_ms": " 9 ", "hit_share": "", "alpha_ms": "", "unknown": "x"}, before)
    assert typed.values["tau0_ms"] == 9
    # What is optional may be left out; what is needed is then what was measured.
    assert (typed.values["hit_share"], typed.values["alpha_ms"]) == (None, 1.2)
    assert typed.own == {"tau0_ms", "hit_share"}
    assert not typed.errors


def test_every_refused_field_is_told_at_once() -> None:
    found = enter({"tau0_ms": "x", "hit_share": "2"}, EXAMPLES)
    assert set(found.errors) == {"tau0_ms", "hit_share"}
    assert found.texts["tau0_ms"] == "x"


def test_an_empty_system_is_planned_with_examples(sources: Sources) -> None:
    report = ask(sources, "delay", WINDOW, {})
    assert report.refused == ""
    assert report.facts["plan"] is not None
    given_by = report.facts["given"]
    assert isinstance(given_by, dict)
    assert given_by["tau0_ms"] == {"value": 6.0, "source": "an example: BERT-base on a T4"}
    assert given_by["hit_share"]["value"] is None
    assert any("Redis cannot be read" in problem for problem in report.view["problems"])  # type: ignore[attr-defined]
    assert PAGE.build(sources, "delay", WINDOW).facts["plan"] == report.facts["plan"]


def test_a_profile_is_used_where_no_replica_has_reported(sources: Sources, tmp_path: Path) -> None:
    folder = tmp_path / PROFILES
    folder.mkdir()
    sizes = [1, 2, 4, 8, 16, 32]
    for name, model, factor in (("a", "delay", 1.0), ("b", "delay", 2.0), ("c", "price", 3.0)):
        measured = [{"rows": rows, "batch_ms": factor * (5 + rows)} for rows in sizes]
        document = {"model": model, "version": "7", "device": "cpu", "measured": measured}
        (folder / f"{name}.json").write_bytes(orjson.dumps(document))
    (folder / "z.json").write_bytes(b"{cut short")
    found = ask(sources, "delay", WINDOW, {}).facts["given"]
    assert isinstance(found, dict)
    assert [found[name]["value"] for name in ("tau0_ms", "alpha_ms", "max_batch_rows")] == [10.0, 2.0, 32]
    assert found["tau0_ms"]["source"].startswith("fitted to the profile b.json, version 7 on cpu; ± ")


def write_profile(folder: Path, batch_ms: dict[int, float]) -> Path:
    (folder / PROFILES).mkdir()
    measured = [{"rows": rows, "batch_ms": ms} for rows, ms in batch_ms.items()]
    path = folder / PROFILES / "p.json"
    path.write_bytes(orjson.dumps({"model": "delay", "version": "7", "device": "cpu", "measured": measured}))
    return path


def asked_of_the_planner(capsys: pytest.CaptureFixture[str], command: object) -> object:
    words = shlex.split(str(command))
    assert words[:3] == [".venv/bin/python", "-m", "online.planning"]
    assert main([*words[3:], "--json"]) == 0
    return orjson.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("batch_ms", "is_linear"),
    [
        ({1: 7.3, 2: 8.3, 4: 10.9, 8: 15.5, 16: 25.3, 32: 44.3}, True),
        ({1: 10.0, 2: 10.0, 4: 10.1, 8: 10.2, 16: 30.0, 32: 90.0}, False),
    ],
)
def test_a_profile_is_planned_with_as_the_command_line_does(
    sources: Sources,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    batch_ms: dict[int, float],
    is_linear: bool,
) -> None:
    path = write_profile(tmp_path, batch_ms)
    query = {
        "weight_gb": "20",
        "memory_gb": "16",
        "budget_per_month": "500",
        "outside_ms": "2",
        "outside_row_ms": "0.1",
    }
    report = ask(sources, "delay", WINDOW, {"peak_per_s": "600", "p99_ms": "80", **query})
    plan = report.facts["plan"]
    assert isinstance(plan, dict)
    assert f"--profile {path}" in str(report.facts["command"])
    assert asked_of_the_planner(capsys, report.facts["command"]) == plan
    assert plan["is_linear"] is is_linear
    assert plan["weights_share_of_memory"] == 1.25
    assert plan["affordable_replicas"] == 1
    basis = dict(report.view["basis"])  # type: ignore[call-overload]
    (line,) = (note for note in basis if note.startswith("delay 7 on cpu: tau0 "))
    assert " ± " in line
    assert any(note.startswith("Warning: the linear model does not fit") for note in basis) is not is_linear
    assert basis["The weights do not fit: 125% of a card's memory; `strategy` shows what would help."]
    # Whoever types another line plans with that.
    typed = ask(sources, "delay", WINDOW, {"tau0_ms": "9"})
    assert "--tau0 9 " in str(typed.facts["command"])
    assert "--profile" not in str(typed.facts["command"])
    assert "is_linear" not in typed.facts["plan"]  # type: ignore[operator]


def test_a_card_without_weights_is_told_by_its_field(sources: Sources) -> None:
    report = ask(sources, "delay", WINDOW, {"memory_gb": "16"})
    assert report.refused == "weight_gb is missing: allowed is weight_gb and memory_gb, or neither"
    assert report.facts["plan"] is None


def test_what_the_planner_refuses_is_told_too(sources: Sources) -> None:
    report = ask(sources, "delay", WINDOW, {"p99_ms": "7"})
    assert report.refused == "p99_ms is 7: allowed is at least 7.2, what one request alone takes"
    assert report.facts["plan"] is None
    assert all(not table.rows for table in report.tables)


def test_everything_hits(sources: Sources) -> None:
    report = ask(sources, "delay", WINDOW, {"hit_share": "1", "hit_ms": "1"})
    plan = report.facts["plan"]
    assert isinstance(plan, dict)
    assert [fleet["replicas"] for fleet in plan["fleets"]] == [1, 0]
    table = report.table("fleets")
    assert table is not None
    assert dict(zip((c.key for c in table.columns), table.rows[1], strict=True))["p99_ms"] is None
