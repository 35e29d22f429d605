"""The function that the benchmark's servers compute, so that each answer can be checked to be its own request's.

Standard library only: servers of others import it in environments of their own. All values are exact in float32.
"""

from collections.abc import Mapping

DIGIT = 4096
FEATURES = ("low", "high", "weight")
OUTPUTS = ("number", "score")
TAU0_MS, ALPHA_MS, MAX_BATCH_ROWS = 6.0, 1.2, 64


def features_of(number: int) -> dict[str, float]:
    """Of request `number` < 2^24: no two requests have the same."""
    return {"low": float(number % DIGIT), "high": float(number // DIGIT), "weight": (number * 37 % 256) / 16}


def outputs_of(features: Mapping[str, float]) -> dict[str, float]:
    low, high, weight = (features[name] for name in FEATURES)
    return {"number": low + DIGIT * high, "score": weight * weight - low}


def batch_s(rows: int) -> float:
    """What the emulated device takes for a batch."""
    return (TAU0_MS + ALPHA_MS * rows) / 1e3
