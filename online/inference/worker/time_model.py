"""T(b) = τ0 + αb as it is at the moment: fitted to the batches while they are executed.

Least squares of relative errors, older batches counting less. The shape of what was measured at the start stays in
it with the weight of a few batches, at the speed of now, so that the line holds while all batches have one size.
One slow batch, such as a page fault or a neighbour's burst, is cut to a few times what was expected.
"""

from schemas.capacity import BatchTime

_MEMORY_BATCHES = 64
_PRIOR_BATCHES = 2.0
_CUT = 3.0


class OnlineBatchTime:
    """`fit` is the line of now. Written by one thread at a time; reading `fit` needs no lock.

    Args:
        measured: the line fitted before serving began.
        max_rows: the largest batch.
    """

    def __init__(self, measured: BatchTime, max_rows: int) -> None:
        self._measured, self._max_rows = measured, max_rows
        self._slower = 1.0  # than measured
        self._seen = _Sums()
        self.fit = measured

    def observe(self, rows: int, batch_ms: float) -> None:
        """Takes in a batch that was executed."""
        expected_ms = self.fit.batch_ms(rows)
        taken_ms = min(max(batch_ms, expected_ms / _CUT), expected_ms * _CUT)
        self._slower += (taken_ms / self._measured.batch_ms(rows) - self._slower) / _MEMORY_BATCHES
        self._seen.scale(1 - 1 / _MEMORY_BATCHES)
        self._seen.add(rows, taken_ms, 1.0)
        shape = _Sums()
        for some_rows in {1, self._max_rows}:
            shape.add(some_rows, self._slower * self._measured.batch_ms(some_rows), _PRIOR_BATCHES)
        self.fit = self._seen.line(shape)


class _Sums:
    """Weighted sums of 1, b, b², T and bT, the weight of a batch being 1/T²."""

    def __init__(self) -> None:
        self._w = self._b = self._bb = self._t = self._bt = 0.0

    def add(self, rows: int, batch_ms: float, weight: float) -> None:
        w = weight / max(batch_ms, 1e-6) ** 2
        self._w += w
        self._b += w * rows
        self._bb += w * rows * rows
        self._t += w * batch_ms
        self._bt += w * rows * batch_ms

    def scale(self, factor: float) -> None:
        self._w, self._b, self._bb = factor * self._w, factor * self._b, factor * self._bb
        self._t, self._bt = factor * self._t, factor * self._bt

    def line(self, more: "_Sums") -> BatchTime:
        """Through the batches of both; neither τ0 nor α is negative."""
        w, b, bb = self._w + more._w, self._b + more._b, self._bb + more._bb
        t, bt = self._t + more._t, self._bt + more._bt
        determinant = w * bb - b * b
        if determinant <= 1e-12 * w * bb:  # one size only
            return BatchTime(t / w, 0.0)
        alpha = (w * bt - b * t) / determinant
        if alpha < 0:
            return BatchTime(t / w, 0.0)
        tau0 = (t - alpha * b) / w
        if tau0 < 0:
            return BatchTime(0.0, bt / bb)
        return BatchTime(tau0, alpha)
