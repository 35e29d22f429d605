"""Windows end with the step that holds now, on the grid of UTC."""

import pytest

from online.monitor.windows import DEFAULT_RANGE, RANGES, find_range, window_at
from tests.support.request_log import utc

NOW = utc("2026-11-29 14:07:31").timestamp()


def test_last_day_is_96_quarters_of_an_hour() -> None:
    window = window_at(DEFAULT_RANGE, NOW)
    assert (window.step_start(0), window.step_start(window.steps)) == (
        utc("2026-11-28 14:15"),
        utc("2026-11-29 14:15"),
    )
    assert window.steps == 96
    assert window.tick_labels() == ["28 Nov 14:15", "28 Nov 20:15", "29 Nov 02:15", "29 Nov 08:15", "29 Nov 14:15"]


@pytest.mark.parametrize("chosen", RANGES, ids=lambda r: r.key)
def test_every_range_holds_now_and_lies_on_its_grid(chosen: object) -> None:
    assert chosen in RANGES
    for now in (NOW, utc("2026-11-29 00:00").timestamp(), utc("2026-11-29 23:59:59").timestamp()):
        window = window_at(next(r for r in RANGES if r is chosen), now)
        assert window.end_s - window.range.step_s <= now < window.end_s or window.range.key == "1h"
        assert window.start_s % window.range.grid_s == 0
        assert window.end_s - window.start_s == window.range.span_s
        assert len(window.tick_labels()) == window.range.ticks


def test_unknown_range() -> None:
    assert find_range("2w") is None
