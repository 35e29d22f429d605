"""What goes on, on standard error, where it does not mix with the answer."""

import sys
import time


class Progress:
    """Says lines, and counts steps of long work: on a terminal in one line, else in one each few seconds."""

    _EACH_S = 5.0

    def __init__(self, is_quiet: bool = False) -> None:
        self._is_quiet = is_quiet
        self._what, self._steps, self._done = "", 0, 0
        self._said_s = self._began_s = time.monotonic()

    def say(self, text: str) -> None:
        if not self._is_quiet or text.startswith(("refused", "interrupted")):
            sys.stderr.write(f"{text}\n")

    def begin(self, what: str, steps: int) -> None:
        self._what, self._steps, self._done = what, steps, 0
        self._said_s = self._began_s = time.monotonic()

    def advance(self) -> None:
        self._done += 1
        now_s = time.monotonic()
        is_terminal = sys.stderr.isatty()
        if self._is_quiet or (not is_terminal and now_s - self._said_s < self._EACH_S):
            return
        self._said_s = now_s
        line = f"{self._what}: {self._done} of {self._steps} after {now_s - self._began_s:.0f} s"
        is_last = self._done >= self._steps
        sys.stderr.write(f"\r{line}\x1b[K{chr(10) if is_last else ''}" if is_terminal else f"{line}\n")
        sys.stderr.flush()
