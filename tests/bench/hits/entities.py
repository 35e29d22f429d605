"""The entities of the benchmark, and what is right of each: a function of its number, so that all can be checked.

Standard library only: servers of others import it in environments of their own.
"""

ENTITIES = 100_000
MODEL, VERSION, GENERATION = "known", "1", "20261129T0200Z-1"
OUTPUT, ABOVE, BELOW = "late", "late", "on time"
FEATURES = ("low", "high")
DIGIT = 1000
_STEPS = 1 << 17  # over ENTITIES, and coarse enough for six decimals and float32 to keep them apart
_FACTOR = 40503  # odd: no two entities have the same value
_INVERSE = pow(_FACTOR, -1, _STEPS)


def entity_of(number: int) -> str:
    """`number` < ENTITIES."""
    return f"e{number:07d}"


def features_of(number: int) -> dict[str, float]:
    return {"low": float(number % DIGIT), "high": float(number // DIGIT)}


def value_of(number: int) -> float:
    """In [0, 1), exact in float32: a probability."""
    return number * _FACTOR % _STEPS / _STEPS


def owner_of(shown: float) -> int | None:
    """Whose value this is, rounded to six decimals; None where it is nobody's."""
    step = round(shown * _STEPS)
    number = step * _INVERSE % _STEPS
    is_value = 0 <= step < _STEPS and round(step / _STEPS, 6) == shown
    return number if is_value and number < ENTITIES else None


def label_of(number: int) -> tuple[str, float]:
    """The label, at and above 0.5, and its confidence."""
    value = value_of(number)
    return (ABOVE, round(value, 6)) if value >= 0.5 else (BELOW, round(1.0 - value, 6))


def document_of(number: int) -> dict[str, object]:
    """What every answer that is no constant must say of the entity, whatever else it says."""
    label, confidence = label_of(number)
    return {
        "entity": entity_of(number),
        "model": MODEL,
        "version": VERSION,
        "generation": GENERATION,
        "source": "precomputed",
        "label": label,
        "confidence": confidence,
        "outputs": {OUTPUT: round(value_of(number), 6)},
    }
