"""How a model of ours is called on a foreign server: the value type of `API_FOREIGN_MODELS`."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, field_validator


class ForeignModel(BaseModel):
    """One model on the servers. What is left out has the same name there as here.

    Attributes:
        version: of theirs that stands for all versions of ours, or a map from ours to theirs; None: their default.
        inputs: their name of an input tensor, by our name.
        outputs: their output tensors in the order of our outputs: one of K columns, or K.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(min_length=1)
    version: str | dict[str, str] | None = None
    inputs: dict[str, str] = {}
    outputs: tuple[str, ...] = ()

    @field_validator("outputs")
    @classmethod
    def _outputs_differ(cls, outputs: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(outputs)) != len(outputs):
            raise ValueError("an output is named twice")
        return outputs

    def has(self, version: str) -> bool:
        """Whether that version of ours is said to be on the servers."""
        return not isinstance(self.version, Mapping) or version in self.version

    def version_for(self, version: str) -> str | None:
        """Their version, for one of ours that they have."""
        return self.version[version] if isinstance(self.version, Mapping) else self.version
