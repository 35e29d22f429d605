"""Health asked for while something else goes on, as a kubelet does."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection

_PAUSE_S, _PATIENCE_S = 0.2, 1.0


@contextmanager
def probed(base: str, paths: Sequence[str]) -> Iterator[list[str]]:
    """What was not answered by 200 within its second; each by a connection of its own."""
    wrong: list[str] = []
    stop = threading.Event()

    def probe() -> None:
        while not stop.wait(_PAUSE_S):
            for path in paths:
                # Not by httpx, which takes tens of milliseconds to make a client.
                link = HTTPConnection(base.removeprefix("http://"), timeout=_PATIENCE_S)
                try:
                    link.request("GET", path)
                    status = link.getresponse().status
                    if status != 200:
                        wrong.append(f"{path}: {status}")
                except OSError as error:
                    wrong.append(f"{path}: {error!r}")
                finally:
                    link.close()

    thread = threading.Thread(target=probe, name="probe")
    thread.start()
    try:
        yield wrong
    finally:
        stop.set()
        thread.join()
