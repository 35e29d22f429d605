import numpy as np
import pytest

from tests.bench.load.arrivals import Phase, poisson


def test_a_seed_gives_the_same_arrivals_and_another_others() -> None:
    phases = [Phase(100, 5)]
    assert poisson(phases, 1).tolist() == poisson(phases, 1).tolist() != poisson(phases, 2).tolist()


def test_gaps_are_exponential() -> None:
    gaps_s = np.diff(poisson([Phase(500, 200)], seed=4))
    assert gaps_s.min() > 0
    assert gaps_s.mean() == pytest.approx(1 / 500, rel=0.02)
    assert gaps_s.std() == pytest.approx(gaps_s.mean(), rel=0.02)
    assert (gaps_s > 1 / 500).mean() == pytest.approx(np.exp(-1), abs=0.01)


def test_phases_follow_each_other_each_at_its_rate() -> None:
    at_s = poisson([Phase(100, 10), Phase(0, 5), Phase(1000, 10)], seed=1)
    counts, _ = np.histogram(at_s, bins=[0, 10, 15, 25])
    assert counts[0] == pytest.approx(1000, rel=0.1)
    assert counts[1] == 0
    assert counts[2] == pytest.approx(10_000, rel=0.1)
    assert len(at_s) == counts.sum()


def test_a_rate_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="no phase"):
        poisson([Phase(-1, 5)], seed=1)
