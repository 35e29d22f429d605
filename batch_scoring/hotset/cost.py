"""What a hit saves and what holding an entity costs: the numbers that a choice weighs."""

from typing import Self

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator


class CostModel(BaseModel):
    """Times are of the device that scores, in ms; they come from the profile of a model's bundle.

    Attributes:
        live_ms: a row scored live, with its share of a batch: what a hit saves.
        batch_ms: a row scored in the night: what precomputing an entity costs, once a refresh.
        lookup_ms: the look-up that every request pays once there is anything to look up.
        stale_ms: what a hit is worth less because its answer is from the night.
        payload_bytes: what a precomputed entity takes beside its id, in one generation.
        written_back_bytes: what a written-back result takes beside its entity's id; dearer, since it is a key of
            its own (measured: 153 against some 20 bytes, beside the value).
        generations: how many generations are resident: the one being loaded beside the one in service.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    live_ms: PositiveFloat = 10.0
    batch_ms: NonNegativeFloat = 0.1
    lookup_ms: NonNegativeFloat = 0.1
    stale_ms: NonNegativeFloat = 0.0
    payload_bytes: PositiveInt = 48
    written_back_bytes: PositiveInt = 180
    generations: PositiveInt = 2

    @model_validator(mode="after")
    def _a_hit_is_worth_something(self) -> Self:
        if self.stale_ms >= self.live_ms:
            raise ValueError("stale_ms must be below live_ms: otherwise no hit is worth having")
        return self

    @property
    def hit_ms(self) -> float:
        """What one hit on a precomputed answer saves."""
        return self.live_ms - self.stale_ms

    def slot_bytes(self, mean_id_bytes: float) -> float:
        """What one entity takes, precomputed or written back, whichever is more: so any split fits the budget."""
        fixed = self.generations * (self.payload_bytes + mean_id_bytes)
        return max(fixed, self.written_back_bytes + mean_id_bytes)
