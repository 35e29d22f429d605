"""Python's search for cycles, for processes that answer requests."""

import gc

# Objects of a request die with it; looking for cycles each 700 of them costs more than it finds.
_THRESHOLDS = (20_000, 20, 20)


def settle() -> None:
    """Once all is loaded: what was made until now stays, and searches, which stop every request, pass it by."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
