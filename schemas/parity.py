"""Whether a live result is what was stored: the measure and the kinds of difference that all comparisons share.

Two compare: a night its sample before it goes live (`batch_scoring.publishing`), and the API a share of its hits
all day (`online.api.parity`). Pure.
"""

from enum import StrEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.manifest import Manifest, Tolerance, TopKOutput
from schemas.outputs import Float32Array, misfits

# What is off by no more than so many tolerances may be another device's or batch's arithmetic.
NEAR = 10.0

Mask = npt.NDArray[np.bool_]


class Kind(StrEnum):
    """What a difference is put down to.

    Of a night, `equal` is within the tolerance and `numeric` is near it (`NEAR`). Of a hit, `equal` is to the last
    bit, `numeric` within the tolerance and `numeric_over` beyond it, with nothing that explains it.
    """

    EQUAL = "equal"
    NUMERIC = "numeric"
    NUMERIC_OVER = "numeric_over"
    FEATURE_DRIFT = "feature_drift"
    WRONG_MODEL = "wrong_model"


NIGHTLY_KINDS = (Kind.EQUAL, Kind.NUMERIC, Kind.FEATURE_DRIFT, Kind.WRONG_MODEL)
# Of hits: what nobody expects, however rare. Features drift whenever a table is newer than the answers.
ALARMING = (Kind.NUMERIC_OVER, Kind.WRONG_MODEL)


class Skip(StrEnum):
    """Why a hit of the sample was not compared."""

    BEHIND = "behind"
    OVER_CAPACITY = "over_capacity"
    LIVE_UNAVAILABLE = "live_unavailable"
    NOT_ROUTED = "not_routed"
    NO_FEATURES = "no_features"
    FAILED = "failed"


class Measured(NamedTuple):
    """A hit beside its live result.

    Attributes:
        kind: EQUAL, NUMERIC or NUMERIC_OVER; what may explain the last is `explained`'s to say.
        tolerances: how far off the worst output is, as a multiple of what is allowed; inf for another label.
        output: the name of that one.
    """

    kind: Kind
    tolerances: float
    output: str


def fits(manifest: Manifest, found: Float32Array, stored: Float32Array, times: float = 1.0) -> Mask:
    """(n,) whether all outputs are what is stored, within so many tolerances; NaN never is."""
    tolerance = manifest.tolerance
    wider = Tolerance(absolute=times * tolerance.absolute, relative=times * tolerance.relative)
    return np.asarray(~misfits(manifest.output, wider, found, stored).any(axis=1))


def excess(manifest: Manifest, found: Float32Array, stored: Float32Array) -> Float32Array:
    """(n, W) by how many tolerances each output is off; inf where that cannot be said, 0 where labels tie."""
    tolerance = manifest.tolerance
    apart = np.abs(found - stored)
    with np.errstate(divide="ignore", invalid="ignore"):
        off = apart / (tolerance.absolute + tolerance.relative * np.abs(stored))
    # Where nothing is allowed and nothing is off; and a pair of labels is as far apart as no number says.
    off = np.where(apart == 0, np.float32(0), np.nan_to_num(off, nan=np.inf, posinf=np.inf))
    labels = label_places(manifest)
    bad = misfits(manifest.output, tolerance, found, stored)
    off[:, labels] = np.where(bad[:, labels], np.inf, 0.0)
    return np.asarray(off, dtype=np.float32)


def label_places(manifest: Manifest) -> list[int]:
    """Places, among the W stored outputs, of labels of a top-k: these are compared, not subtracted."""
    return [
        place
        for output, _, stored in manifest.output.spans
        if isinstance(output, TopKOutput)
        for place in range(stored.start, stored.stop, 2)
    ]


def measure(manifest: Manifest, live: Float32Array, stored: Float32Array) -> Measured:
    """One hit: (1, W) each."""
    off = excess(manifest, live, stored)[0]
    worst = int(off.argmax())
    if (live == stored).all():
        kind = Kind.EQUAL
    elif fits(manifest, live, stored)[0]:
        kind = Kind.NUMERIC
    else:
        kind = Kind.NUMERIC_OVER
    return Measured(kind, float(off[worst]), manifest.output.stored_names[worst])


def explained(is_other_bundle: bool, has_other_features: bool) -> Kind:
    """What a hit that is over the tolerance is put down to.

    Args:
        is_other_bundle: its generation was computed by a bundle other than the one that answers live.
        has_other_features: the feature table is not the one it was computed from, or has changed since.
    """
    if is_other_bundle:
        return Kind.WRONG_MODEL
    return Kind.FEATURE_DRIFT if has_other_features else Kind.NUMERIC_OVER
