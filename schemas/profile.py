"""A model's profile on a device, as `python -m online.inference profile` writes it: what its readers need."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError


class BadProfile(ValueError):
    """A file that is no profile; the message names it, and what is wrong."""


class Point(BaseModel):
    """A measured size of batch."""

    model_config = ConfigDict(frozen=True)

    rows: int = Field(ge=1)
    batch_ms: float = Field(gt=0, allow_inf_nan=False)


def _ascending(points: Sequence[Point]) -> list[Point]:
    """Raises ValueError where a size stands twice."""
    if len({point.rows for point in points}) < len(points):
        raise ValueError("a batch size stands twice")
    return sorted(points, key=lambda point: point.rows)


class ProfileDocument(BaseModel):
    """`measured`: at least one size, ascending."""

    model: str
    version: str
    device: str = ""
    device_name: str = ""
    threads: int = Field(1, ge=1)
    overruns: int = Field(0, ge=0)
    measured: Annotated[list[Point], Field(min_length=1), AfterValidator(_ascending)]

    @property
    def rows(self) -> list[int]:
        return [point.rows for point in self.measured]

    @property
    def batch_ms(self) -> list[float]:
        return [point.batch_ms for point in self.measured]


def read_profile_document(path: Path) -> ProfileDocument:
    """Raises BadProfile."""
    try:
        return ProfileDocument.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BadProfile(f"{path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        raise BadProfile(f"{path}: {where}: {first['msg']}") from None
