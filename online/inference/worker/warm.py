"""A version that is loaded, checked and warm: what the parts of a worker share of it."""

from collections.abc import Callable
from dataclasses import dataclass

from online.inference.worker.batcher import Batcher
from schemas.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Warm:
    """A version that can serve.

    Attributes:
        table: T(b) as measured before serving, (rows, ms) each.
        overruns: how many batches an emulated device could not do in time.
        give_threads: how many torch may use from now on, all instances together.
    """

    manifest: Manifest
    digest: str
    batcher: Batcher
    max_batch_rows: int
    table: list[tuple[int, float]]
    overruns: Callable[[], int]
    give_threads: Callable[[int], None]
