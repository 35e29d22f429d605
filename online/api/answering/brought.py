"""Features that a caller brings: their tensors, and the digest under which the result is kept.

The digest covers everything that affects the result: bundle, and of each input dtype, shape and bytes. The
transform has canonicalised the values, so -0.0 and 0.0, or 0.1 and its float32, give one digest. Results live
under `i:`, which no look-up of an entity reads: a caller cannot change what others are told.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from online.api.routes.view import VersionView
from online.errors import InvalidFeatures
from schemas.features import Transformed
from schemas.wire import Tensor


def transform(view: VersionView, records: Sequence[Mapping[str, object]]) -> list[list[Tensor] | InvalidFeatures]:
    """For each record its row of each input, (1, width) in wire order, or what is wrong with it."""
    done = view.transform.records(records)
    wrong = problems_by_row(done)
    return [
        wrong[row] if row in wrong else [done.tensors[name][row : row + 1] for name in view.tensor_names]
        for row in range(len(records))
    ]


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
