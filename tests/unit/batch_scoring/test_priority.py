"""Who gives way while a load is limited: the threads that load and no other; without a limit, nobody."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from batch_scoring.priority import DRIVER_NICE, NICE, give_way, have_driver_give_way
from batch_scoring.settings import BatchSettings

UNLIMITED = BatchSettings.model_validate({})
LIMITED = UNLIMITED.model_copy(update={"max_entities_per_s": 20_000})
SLEEPS = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); print(1, flush=True)"


def niceness(thread: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, thread)


@pytest.mark.parametrize(("settings", "wanted"), [(LIMITED, NICE), (UNLIMITED, None)])
def test_a_thread_gives_way_alone_and_what_it_starts_with_it(settings: BatchSettings, wanted: int | None) -> None:
    before, found = niceness(0), list[int]()

    def work() -> None:
        give_way(settings)
        found.append(niceness(0))
        below = threading.Thread(target=lambda: found.append(niceness(0)))
        below.start()
        below.join()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before if wanted is None else max(before, wanted)] * 2
    assert niceness(0) == before


@pytest.fixture
def other() -> "Iterator[subprocess.Popen[bytes]]":
    """A process of two threads."""
    with subprocess.Popen([sys.executable, "-c", SLEEPS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_all_threads_of_another_process_give_way(other: "subprocess.Popen[bytes]") -> None:
    threads = [int(name) for name in os.listdir(f"/proc/{other.pid}/task")]
    before = niceness(0)
    assert len(threads) == 2
    have_driver_give_way(other.pid, UNLIMITED)
    assert {niceness(one) for one in threads} == {before}
    have_driver_give_way(other.pid, LIMITED)
    assert {niceness(one) for one in threads} == {max(before, DRIVER_NICE)}
