"""Which misses are written back: from the n-th on, of those that are remembered."""

from schemas.admission import Admission


def test_from_the_nth_miss_on_each_key_by_itself() -> None:
    third = Admission(3, 1000)
    assert [third.admits(key) for key in "aabaab"] == [False, False, False, True, True, False]


def test_who_admits_all_remembers_nobody() -> None:
    door = Admission(1, 10)
    assert all(door.admits(key) for key in range(100))
    assert not door._misses


def test_old_misses_count_half_and_are_forgotten() -> None:
    second = Admission(2, 10)
    assert not second.admits("once")
    for key in range(9):  # the tenth miss halves: who was missed once is forgotten
        second.admits(key)
    assert not second.admits("once")
    assert second.admits("once")


def test_what_is_remembered_is_bounded() -> None:
    door = Admission(2, 100)
    for key in range(100_000):
        assert not door.admits(key)
        assert len(door._misses) <= 100
