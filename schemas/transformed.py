"""What the transform of n rows gives: problems of some, and tensors of any of them, text padded for just those."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from schemas.text import Tokens

Tensor = npt.NDArray[np.float32] | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FeatureProblem:
    """Why a row cannot be used: which feature, and what would be allowed."""

    row: int
    feature: str
    reason: str


@dataclass(frozen=True, slots=True)
class Transformed:
    """n rows as the model's inputs take them. Rows with problems hold zeros, or no text.

    Attributes:
        fixed: (n, width), of the inputs that have a width.
        texts: by text feature; `parts` has its inputs: name, feature, and whether it is the mask.
    """

    rows: int
    fixed: dict[str, Tensor]
    problems: list[FeatureProblem] = field(default_factory=list)
    texts: Mapping[str, Tokens] = field(default_factory=dict)
    parts: Sequence[tuple[str, str, str | None]] = ()

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All rows by name of the input, text padded for the longest of them."""
        return self.take(np.arange(self.rows)) if self.texts else self.fixed

    @property
    def bad_rows(self) -> set[int]:
        return {problem.row for problem in self.problems}

    def take(self, rows: npt.NDArray[np.int64], lengths: Mapping[str, int] | None = None) -> dict[str, Tensor]:
        """These rows by name of the input, text padded for the longest of them.

        Args:
            lengths: by text feature, the padded length to use instead; longer text is cut.
        """
        taken: dict[str, Tensor] = {name: tensor[rows] for name, tensor in self.fixed.items()}
        if self.parts:
            lengths = lengths or {name: tokens.length_for(rows) for name, tokens in self.texts.items()}
            for name, feature, part in self.parts:
                taken[name] = self.texts[feature].padded(rows, lengths[feature], part)
        return taken

    def row(self, row: int) -> dict[str, Tensor]:
        """One row, (1, ...) of each input: text as long as it would be alone."""
        return self.take(np.array([row]))

    def each(self) -> list[dict[str, Tensor]]:
        """Each row as `row` gives it."""
        if self.rows == 1:
            return [self.tensors]
        found: list[dict[str, Tensor]] = [{}] * self.rows
        for group in self.groups():
            taken = self.take(group) if self.parts else self.fixed
            for place, row in enumerate(group.tolist()):
                found[row] = {name: tensor[place : place + 1] for name, tensor in taken.items()}
        return found

    def paddings(self) -> list[dict[str, int]]:
        """Padded lengths by text feature: the shortest of each, the next of each, and so on; none without text."""
        most = max((len(tokens.buckets) for tokens in self.texts.values()), default=0)
        return [
            {name: int(tokens.buckets[min(place, len(tokens.buckets) - 1)]) for name, tokens in self.texts.items()}
            for place in range(most)
        ]

    def groups(self) -> list[npt.NDArray[np.int64]]:
        """All rows, in groups of one shape each, shortest text first: no row then pays for another's length."""
        if not self.texts:
            return [np.arange(self.rows)]
        shape = np.zeros(self.rows, dtype=np.int64)
        for tokens in self.texts.values():
            shape = shape * len(tokens.buckets) + np.searchsorted(tokens.buckets, tokens.counts)
        return [np.flatnonzero(shape == one) for one in np.unique(shape)]
