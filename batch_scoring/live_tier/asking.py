"""Rows to the replicas in turn, so that each is looked at; what one cannot do now, another does."""

import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence

from batch_scoring.live_tier.client import LiveTierClient, Rejected, Unavailable
from schemas.manifest import Manifest
from schemas.outputs import calibrate
from schemas.replicas import Replica, Wanted
from schemas.wire import Float32Array, Tensor

_TRIES_A_REPLICA = 3
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


class NotAnswered(Exception):
    """No replica answered a batch, or the time was up; the message says what the last one said."""


class Asking:
    """Bounded: a replica that fails three times in a row, or says no, is asked no more; and `within_s` in all.

    Attributes:
        rows: answered, by replica.
        faults: the last of each replica that had one, in words.
    """

    def __init__(
        self,
        client: LiveTierClient,
        replicas: Sequence[Replica],
        wanted: Wanted,
        manifest: Manifest,
        timeout_s: float,
        within_s: float,
    ) -> None:
        self._client, self._wanted, self._manifest = client, wanted, manifest
        self._replicas = deque(replicas)
        self._timeout_s, self._within_s = timeout_s, within_s
        self._end_s = time.monotonic() + within_s
        self._failures: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()
        self.faults: dict[str, str] = {}

    @property
    def max_batch_rows(self) -> int:
        """Of a batch that every replica takes whole."""
        most = [replica.max_batch_rows(self._wanted) for replica in self._replicas]
        return min([self._manifest.max_batch_rows, *(rows for rows in most if rows)])

    def stored_outputs(self, tensors: Mapping[str, Tensor]) -> tuple[Float32Array, str]:
        """(rows, W) outputs as they would be stored, and who answered. Raises NotAnswered."""
        rows = len(next(iter(tensors.values())))
        while self._replicas:
            replica = self._replicas[0]
            if (left_s := self._end_s - time.monotonic()) <= 0:
                raise NotAnswered(f"not done within {self._within_s:g} s{self._told()}")
            try:
                timeout_s = min(self._timeout_s, left_s)
                raw = self._client.raw_outputs(replica, self._wanted, self._manifest, tensors, timeout_s)
            except Unavailable as fault:
                self._fail(replica, fault)
            except Rejected as fault:
                self.faults[replica.name] = str(fault)
                self._replicas.popleft()
            else:
                self._failures[replica.name] = 0
                self._replicas.rotate(-1)
                self.rows[replica.name] += rows
                return calibrate(self._manifest.output, raw), replica.name
        raise NotAnswered(f"no replica answers any more{self._told()}")

    def _fail(self, replica: Replica, fault: Unavailable) -> None:
        self.faults[replica.name] = str(fault)
        self._failures[replica.name] += 1
        if self._failures[replica.name] >= _TRIES_A_REPLICA:
            self._replicas.popleft()
            return
        self._replicas.rotate(-1)
        is_alone = self._replicas[0] is replica
        pause_s = fault.retry_after_s if is_alone and fault.retry_after_s is not None else _PAUSE_S
        time.sleep(min(pause_s, _LONGEST_PAUSE_S))

    def _told(self) -> str:
        return "".join(f"; {name}: {words}" for name, words in sorted(self.faults.items()))
