"""What a worker keeps of precomputed answers: within its bytes, the least recently asked for goes first."""

import subprocess
import sys

from online.api.answering.l1 import L1, Kept
from schemas.manifest import Output, OutputSpecification
from schemas.outputs import AnswerMaker

MAKER = AnswerMaker(OutputSpecification(outputs=(Output(name="x"),)))


def kept(number: float, text_bytes: int = 1000) -> Kept:
    return Kept(b"a", [number], MAKER.answer([number]), 1, "20261128T0200Z-1", b"x" * text_bytes, b"")


def test_bytes_are_bounded_whatever_comes_and_what_is_asked_for_stays() -> None:
    l1, most = L1(100_000), 0
    for place in range(1_000):
        l1.put(b"entity%d" % place, kept(place))
        assert l1.get(b"entity0") is not None, "asked for each time"
        most = max(most, l1.size()[1])
    entries, size_bytes = l1.size()
    assert 50_000 < size_bytes <= most <= 100_000
    assert size_bytes / entries >= 1_000, "the text is counted"
    assert l1.get(b"entity999") is not None
    assert l1.get(b"entity1") is None
    assert (l1.hits, l1.misses) == (1_001, 1)


def test_what_is_larger_than_all_of_it_is_not_kept_and_fails_nobody() -> None:
    l1 = L1(10_000)
    l1.put(b"small", kept(1))
    l1.put(b"large", kept(2, 20_000))
    assert l1.get(b"large") is None
    assert l1.size()[1] <= 10_000


def test_a_dropped_one_is_gone_and_another_stays() -> None:
    l1 = L1(10_000)
    for name in (b"a", b"b"):
        l1.put(name, kept(1))
    for name in (b"a", b"nobody"):
        l1.drop(name)
    assert l1.get(b"a") is None
    assert l1.get(b"b") is not None


def test_of_no_size_it_keeps_nothing() -> None:
    l1 = L1(0)
    l1.put(b"a", kept(1))
    l1.drop(b"a")
    assert (l1.get(b"a"), l1.keeps, l1.size()) == (None, False, (0, 0))


def test_a_collection_of_garbage_may_begin_at_any_moment() -> None:
    """A cache that locks itself would wait for itself: in a process of its own, since nothing else ends that."""
    program = (
        f"import gc; from {__name__} import L1, kept; gc.set_threshold(1, 1, 1); l1 = L1(20_000)\n"
        "for place in range(500):\n    l1.put(b'%d' % place, kept(place)); assert l1.get(b'%d' % place)\n"
        "print(*l1.size())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    entries, size_bytes = map(int, done.stdout.split())
    assert 10 < entries < 20
    assert size_bytes <= 20_000
