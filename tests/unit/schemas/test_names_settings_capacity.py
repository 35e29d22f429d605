"""Names and places, settings that refuse what they do not know, and the batch arithmetic."""

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import PositiveInt, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas import names
from schemas.capacity import (
    BatchTime,
    fit_batch_time,
    replica_rows_per_s,
    replicas_needed,
    steady_batch_rows,
)
from schemas.settings import BadSettings, load_settings


@pytest.mark.parametrize("good", ["delay", "007", "a", "v1.2-x_3", "a" * 64])
def test_names_that_may_be(good: str) -> None:
    assert names.check_name(good, "model") == good


@pytest.mark.parametrize("bad", ["", "Delay", "-a", "a" * 65, "a:b", "a/b", "a\n", "é", "٣", ".."])
def test_names_that_may_not_be(bad: str) -> None:
    with pytest.raises(ValueError, match="not a model name"):
        names.check_name(bad, "model")


def test_generations_are_named_by_interval_and_run() -> None:
    as_of = datetime(2026, 11, 28, 4, 0, tzinfo=timezone(timedelta(hours=2)))
    assert names.generation_name(as_of, 3) == "20261128T0200Z-3"
    assert names.parse_generation("20261128T0200Z-3") == (as_of, 3)
    assert names.interval_of("20261128T0200Z-3") == "20261128T0200Z"
    for bad in ("None", "20261128T0200Z", "20261128T0200Z-0", "20261328T0200Z-1", "20261128T0200Z-1\n"):
        with pytest.raises(ValueError):
            names.parse_generation(bad)
    with pytest.raises(ValueError, match="no time zone"):
        names.generation_name(as_of.replace(tzinfo=None), 1)


def test_partitions_are_of_the_utc_hour() -> None:
    hour = datetime(2026, 11, 28, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    assert names.requests_hour_path("007", hour) == "requests/model=007/date=2026-11-27/hour=23"


@pytest.mark.parametrize("entity", ["a/b", "a%2Fb", " a", "é", "e\u0301", "\x00", "x" * 256, "💥" * 64])
def test_entities_are_any_bytes_of_unicode(entity: str) -> None:
    assert names.entity_bytes(entity).decode() == entity


@pytest.mark.parametrize("entity", ["", "x" * 257, "é" * 129, "a\ud83d", "\udc00"])
def test_entities_that_cannot_be(entity: str) -> None:
    with pytest.raises(ValueError, match="entity"):
        names.entity_bytes(entity)


class SomeSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="SOME_", frozen=True)

    max_rows: PositiveInt = 32
    token: SecretStr = SecretStr("")


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_MAX_ROWS", "64")
    assert load_settings(SomeSettings).max_rows == 64


def test_a_misspelt_setting_is_refused_with_the_nearest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_MAX_ROSW", "64")
    with pytest.raises(BadSettings, match="SOME_MAX_ROSW is no setting; did you mean SOME_MAX_ROWS"):
        load_settings(SomeSettings)


def test_a_bad_value_is_named_but_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_MAX_ROWS", "hunter2")
    with pytest.raises(BadSettings, match="SOME_MAX_ROWS: ") as caught:
        load_settings(SomeSettings)
    assert "hunter2" not in str(caught.value)


@given(st.floats(0.1, 50), st.floats(0.01, 5))
def test_an_exact_line_is_fitted_exactly(tau0: float, alpha: float) -> None:
    rows = [1, 2, 4, 8, 16, 32]
    fitted = fit_batch_time(rows, [tau0 + alpha * b for b in rows])
    assert fitted.tau0_ms == pytest.approx(tau0, rel=1e-6, abs=1e-9)
    assert fitted.alpha_ms == pytest.approx(alpha, rel=1e-6, abs=1e-9)


def test_a_fit_never_has_a_negative_part() -> None:
    assert fit_batch_time([1, 2], [5.0, 4.0]).alpha_ms == 0
    assert fit_batch_time([1, 10], [0.5, 20.0]).tau0_ms == 0
    assert fit_batch_time([4], [8.0]) == BatchTime(8.0, 0.0)
    with pytest.raises(ValueError):
        fit_batch_time([], [])


def test_sizing_of_the_emulated_t4() -> None:
    t4 = BatchTime(6.0, 1.2)
    assert t4.batch_ms(32) == pytest.approx(44.4)
    # b = rate * T(b): 0.6 * 6 / (1 - 0.72) = 12.9
    assert steady_batch_rows(t4, 600, 64) == 13
    assert steady_batch_rows(t4, 900, 64) == 64
    assert steady_batch_rows(t4, 0, 64) == 1
    one = replica_rows_per_s(t4, 64, max_batch_ms=50, utilisation=0.6)
    assert one == pytest.approx(0.6 * 36 / t4.batch_ms(36) * 1e3)
    assert replicas_needed(one * 2.5, one) == 3
    assert replicas_needed(0, one) == 0
