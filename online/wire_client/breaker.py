"""A circuit breaker: after some failures in a row a peer is left alone for a while, then tried once."""

from online.pauses import Pauses

_FAILURES = 5
_MOMENT_S = 0.05


class Breaker:
    """Of one peer. Times are by the event loop's clock, in seconds."""

    def __init__(self, first_pause_s: float = 0.25, longest_pause_s: float = 5.0) -> None:
        self._pauses = Pauses(first_pause_s, longest_pause_s)
        self._failures = 0
        self._closed_at_s = 0.0
        self._failed_at_s = -_MOMENT_S
        self._is_trying = False

    def allows(self, now_s: float) -> bool:
        """Whether a request may be sent: always, or after a pause one to try."""
        return self._failures < _FAILURES or (now_s >= self._closed_at_s and not self._is_trying)

    def sent(self) -> None:
        self._is_trying = self._failures >= _FAILURES

    def succeeded(self) -> None:
        """The peer answered, if only with a refusal."""
        if self._failures >= _FAILURES:
            self._pauses.reset()
        self._failures, self._is_trying = 0, False

    def failed(self, now_s: float) -> None:
        """No answer came. Those of one moment count once: this side may have been late to read, not the peer."""
        self._is_trying = False
        if now_s - self._failed_at_s < _MOMENT_S:
            return
        self._failed_at_s = now_s
        self._failures += 1
        if self._failures >= _FAILURES:
            self._closed_at_s = now_s + self._pauses.next_s()

    def abandoned(self) -> None:
        """The caller went away before it was known: another may try."""
        self._is_trying = False
