"""Features that a caller brings: their tensors, and the digest under which the result is kept.

The digest covers everything that affects the result: bundle, and of each input dtype, shape and bytes. The
transform has canonicalised the values, so -0.0 and 0.0, or 0.1 and its float32, give one digest. Results live
under `i:`, which no look-up of an entity reads: a caller cannot change what others are told.
"""

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from online.api.routes.view import VersionView
from online.errors import InvalidFeatures
from schemas.features import Transformed
from schemas.wire import Tensor

# Characters of text that are tokenized in the event loop itself: about ten milliseconds of it.
_MOST_AT_ONCE = 16_384


async def transform(
    view: VersionView, records: Sequence[Mapping[str, object]], most_at_once: int = _MOST_AT_ONCE
) -> list[list[Tensor] | InvalidFeatures]:
    """For each record its row of each input, in wire order, or what is wrong with it.

    A row is (1, width) of each input, or (1, length) of text: as long as that is by itself, in whatever company it
    came. So it has one digest, and does not pay for the length of others.

    Args:
        most_at_once: characters of text that may hold the event loop.
    """
    if view.transform.has_text and _text_characters(records) > most_at_once:
        # The tokenizer holds the interpreter for a text, not for all of them: the event loop has its turn between.
        return await asyncio.to_thread(transform_now, view, records)
    return transform_now(view, records)


def transform_now(
    view: VersionView, records: Sequence[Mapping[str, object]]
) -> list[list[Tensor] | InvalidFeatures]:
    """As `transform`, however long it takes."""
    done = view.transform.records(records)
    wrong = problems_by_row(done)
    return [
        wrong[row] if row in wrong else [tensors[name] for name in view.tensor_names]
        for row, tensors in enumerate(done.each())
    ]


def _text_characters(records: Sequence[Mapping[str, object]]) -> int:
    return sum(len(value) for record in records for value in record.values() if isinstance(value, str))


def problems_by_row(done: Transformed) -> dict[int, InvalidFeatures]:
    found: dict[int, list[dict[str, str]]] = {}
    for problem in done.problems:
        field = problem.feature.encode("ascii", "backslashreplace").decode()
        found.setdefault(problem.row, []).append({"field": f"features.{field}", "reason": problem.reason})
    return {
        row: InvalidFeatures("; ".join(f"{e['field']}: {e['reason']}" for e in errors), errors=errors)
        for row, errors in found.items()
    }


def digest(view: VersionView, tensors: Sequence[Tensor]) -> bytes:
    """32 hexadecimal digits."""
    found = blake2b(view.digest.encode(), digest_size=16)
    for name, tensor in zip(view.tensor_names, tensors, strict=True):
        found.update(f"|{name}|{tensor.dtype.str}|{tensor.shape}|".encode())
        found.update(tensor.tobytes())
    return found.hexdigest().encode()
