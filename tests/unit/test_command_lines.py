"""Every command says what it takes, and refuses nonsense in one line and with status 2, without a traceback."""

import argparse
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.commands import run_command

COMMANDS: dict[str, Sequence[str]] = {
    "batch_scoring.bundle": ("check", "digest"),
    "batch_scoring.drift": (),
    "batch_scoring.drift.report": (),
    "batch_scoring.features": (),
    "batch_scoring.hotset": ("choose", "backtest"),
    "batch_scoring.publishing": ("begin", "load", "verify", "gate", "activate", "retire"),
    "batch_scoring.publishing.publish_job": (),
    "batch_scoring.releases": ("list", "show", "activate", "rollback", "retire"),
    "batch_scoring.requestlog": ("import", "compact", "retention"),
    "batch_scoring.scoring": (),
    "infra.airflow": ("run", "ui", "exec"),
    "infra.demo": (),
    "infra.docs": (),
    "infra.grafana": (),
    "infra.local": ("up", "down", "status", "restart", "logs"),
    "online.api": (),
    "online.inference": ("serve", "profile"),
    "online.monitor": ("explain",),
    "online.planning": ("plan", "size", "batch", "queues", "strategy", "economics"),
}


@pytest.fixture(autouse=True)
def _own_logs() -> Iterator[None]:
    """A command logs to the standard error that it found: the next test has another."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_the_command_and_explains_every_option(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bare: list[str] = []
    add = argparse._ActionsContainer.add_argument

    def watched(container: argparse._ActionsContainer, *names: str, **given: object) -> argparse.Action:
        if not given.get("help"):
            bare.append(f"{names}")
        return add(container, *names, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(argparse._ActionsContainer, "add_argument", watched)
    for words in ([], *([command] for command in COMMANDS[name])):
        status, out, err = run_command(name, *words, "--help")
        assert (status, err) == (0, "")
        assert " ".join(["python -m", name, *words]) in out
    assert bare == []


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("words", [("--no-such-option",), ("no-such-command",)], ids=["option", "command"])
def test_nonsense_is_refused_in_words(name: str, words: Sequence[str]) -> None:
    status, out, err = run_command(name, *words)
    assert (status, out) == (2, "")
    assert "error: " in err.splitlines()[-1]
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("name", "words", "why"),
    [
        ("batch_scoring.drift", ("--model", "Delay", "--to", "2026-11-29"), "Delay"),
        ("batch_scoring.drift.report", ("--model", "delay", "--to", "soon"), "soon"),
        ("batch_scoring.requestlog", ("retention", "--days", "0"), "--days must be at least 1"),
        ("batch_scoring.requestlog", ("compact", "--max-mb", "0"), "--max-mb"),
        (
            "batch_scoring.requestlog",
            ("import", "/no/such/file.csv", "--model", "delay"),
            "no file /no/such/file.csv",
        ),
        ("batch_scoring.hotset", ("backtest", "--log", "/no/such/log"), "/no/such/log"),
        ("batch_scoring.features", ("--run", "/no/such/run.json"), "/no/such/run.json"),
        (
            "batch_scoring.publishing",
            ("activate", "--run", "/no/such/run.json", "--token", "1"),
            "/no/such/run.json",
        ),
        ("batch_scoring.publishing", ("gate", "--run", "x", "--token", "one"), "--token"),
        ("infra.airflow", ("run", "--as-of", "soon"), "'soon' is no moment such as"),
        ("infra.demo", ("--factor", "0"), "--factor must be at least 1"),
        ("infra.local", ("restart", "nobody"), "no process is called 'nobody'; there are valkey"),
        ("online.inference", ("profile", "--bundle", "x", "--device", "tpu"), "tpu"),
        ("online.inference", ("profile", "--bundle", "/no/such/bundle", "--device", "cpu"), "/no/such/bundle"),
        ("online.monitor", ("explain", "an-id", "--around", "soon"), "'soon' is no time such as"),
        ("online.planning", ("size", "--tau0", "-1", "--alpha", "1", "--peak-per-s", "1"), "tau0"),
    ],
)
def test_values_that_cannot_be_are_named(
    name: str, words: Sequence[str], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    status, out, err = run_command(name, *words)
    said = err + caplog.text
    assert (status, out) == (2, "")
    assert why in said
    assert "Traceback" not in said


def test_a_data_root_without_a_log_is_said(tmp_path: Path) -> None:
    for words in (("compact",), ("retention", "--days", "90")):
        status, out, err = run_command("batch_scoring.requestlog", *words, "--data-url", str(tmp_path))
        assert (status, out) == (0, "")
        assert f"no model has a request log under {tmp_path}" in err
