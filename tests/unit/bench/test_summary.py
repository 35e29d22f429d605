import numpy as np
import pytest

from tests.bench.load.summary import Latencies, late_p99_ms, seconds_to_recovery


def test_latencies_of_known_values() -> None:
    found = Latencies.of(np.arange(101.0))
    assert (found.count, found.mean_ms, found.p50_ms, found.p99_ms) == (101, 50.0, 50.0, 99.0)


def test_nothing_has_no_latency() -> None:
    found = Latencies.of(np.array([]))
    assert found.count == 0
    assert np.isnan(found.mean_ms)


def test_a_request_that_was_never_sent_is_late_for_ever() -> None:
    due_s = np.arange(200.0)
    assert late_p99_ms(due_s, due_s + 0.002) == pytest.approx(2.0)
    sent_s = due_s + 0.002
    sent_s[-3:] = np.inf
    assert late_p99_ms(due_s, sent_s) == np.inf


def recovery(latencies_ms: list[float]) -> float:
    due_s = 0.5 * np.arange(len(latencies_ms))
    return seconds_to_recovery(due_s, np.array(latencies_ms), normal_ms=20.0, in_a_row=3)


def test_recovery_is_the_first_of_so_many_good_probes_in_a_row() -> None:
    assert recovery([9.0, 9.0, 9.0]) == 0.0
    assert recovery([50.0, 9.0, 9.0, 50.0, 9.0, 9.0, 9.0, 9.0]) == 2.0
    assert recovery([np.inf, 9.0, 9.0, 9.0]) == 0.5


def test_too_few_good_probes_are_no_recovery() -> None:
    assert recovery([9.0, 9.0, 20.0, 9.0, 9.0]) == np.inf
    assert recovery([9.0, 9.0]) == np.inf
    assert recovery([]) == np.inf
