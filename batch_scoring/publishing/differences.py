"""Differences between what was stored and what the live tier answers, sorted by what explains them. Pure.

Each sampled entity has up to three results of W outputs: *stored*, as it was computed; *of the run*, which the
live tier computes from the run's own feature files; and *of the table*, which it computes from the run's feature
table in Redis, where that holds other features than the files. Live answers will come from that table.

- equal: the run's features give what is stored, within the manifest's tolerance, and so do the table's.
- feature drift: only one of the two gives what is stored. The model is the same; the features that it was computed
  from are no longer those of the other place: the files were rewritten, or the table was changed.
- numeric: neither does, and the run's are off by no more than `NEAR` tolerances: another device or batch.
- wrong model: neither does, by more; or more than half of many are off by a little, which no chance does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.manifest import Manifest
from schemas.outputs import Float32Array
from schemas.parity import NEAR, NIGHTLY_KINDS, Kind, Mask, excess, fits, label_places

_MOST_NEAR, _MANY = 0.5, 20
_WORST_OF_A_KIND = 3


@dataclass(frozen=True, slots=True)
class Compared:
    """n entities.

    Attributes:
        stored, of_run, of_table: (n, W); `of_table` is NaN where the table's features cannot be used, and has the
            run's results where the table holds the same features.
        replicas: who answered each.
        gone: (n,) whether the run's files no longer hold features of the entity that the model takes.
    """

    entities: Sequence[str]
    stored: Float32Array
    of_run: Float32Array
    of_table: Float32Array
    replicas: Sequence[str]
    gone: Mask


def sort_differences(manifest: Manifest, compared: Compared) -> npt.NDArray[np.object_]:
    """(n,) the `Kind` of each entity."""
    run = fits(manifest, compared.of_run, compared.stored)
    table = fits(manifest, compared.of_table, compared.stored)
    near = fits(manifest, compared.of_run, compared.stored, NEAR)
    kinds = np.full(len(compared.entities), Kind.WRONG_MODEL, dtype=object)
    kinds[near] = Kind.NUMERIC
    kinds[(run != table) | compared.gone] = Kind.FEATURE_DRIFT
    kinds[run & table] = Kind.EQUAL
    if len(kinds) >= _MANY and (kinds == Kind.NUMERIC).sum() > _MOST_NEAR * len(kinds):
        kinds[kinds == Kind.NUMERIC] = Kind.WRONG_MODEL
    return kinds


def figures(manifest: Manifest, compared: Compared) -> dict[str, object]:
    """How many of each kind, and the largest differences; labels of a top-k are compared, not subtracted."""
    kinds = sort_differences(manifest, compared)
    absolute, relative = _differences(manifest, compared.of_run, compared.stored)
    identical = (compared.of_run == compared.stored).all(axis=1)
    return {
        "compared": len(kinds),
        "identical": int(identical.sum()),
        **{kind.value: int((kinds == kind).sum()) for kind in NIGHTLY_KINDS},
        "max_abs_diff": _most(absolute),
        "max_relative_diff": _most(relative),
        "worst": _worst(manifest, compared, kinds),
    }


def _differences(
    manifest: Manifest, found: Float32Array, stored: Float32Array
) -> tuple[Float32Array, Float32Array]:
    """(n, numbers) absolute and relative, of all outputs that are numbers."""
    numbers = _numbers(manifest)
    absolute = np.abs(found[:, numbers] - stored[:, numbers])
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(absolute > 0, absolute / np.abs(stored[:, numbers]), np.float32(0))
    return absolute, relative


def _numbers(manifest: Manifest) -> list[int]:
    """Places, among the W, of what is no label of a top-k."""
    labels = set(label_places(manifest))
    return [place for place in range(manifest.output.stored_width) if place not in labels]


def _most(differences: Float32Array) -> float | None:
    finite = differences[np.isfinite(differences)]
    return float(finite.max()) if finite.size else None


def _worst(manifest: Manifest, compared: Compared, kinds: npt.NDArray[np.object_]) -> list[dict[str, object]]:
    """Of each kind but equal those furthest off, each by its worst output."""
    run_fits = fits(manifest, compared.of_run, compared.stored)
    live = np.where(run_fits[:, None], compared.of_table, compared.of_run)
    off = excess(manifest, live, compared.stored)
    names = manifest.output.stored_names
    found: list[dict[str, object]] = []
    for kind in (Kind.WRONG_MODEL, Kind.FEATURE_DRIFT, Kind.NUMERIC):
        rows = np.flatnonzero(kinds == kind)
        furthest = rows[np.argsort(-off[rows].max(axis=1), kind="stable")][:_WORST_OF_A_KIND]
        for row in furthest.tolist():
            place = int(off[row].argmax())
            stored, answered = float(compared.stored[row, place]), float(live[row, place])
            of = {"entity": compared.entities[row], "kind": kind.value, "output": names[place]}
            found.append({**of, "stored": stored, "live": answered, "replica": compared.replicas[row]})
    return found
