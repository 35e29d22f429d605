"""What a model's outputs are said to be: columns of its result, what of them is stored, labels and rules.

Owns the documents only; `outputs.py` turns raw outputs into stored ones, and those into answers, by them. A model
gives (n, N) numbers, N = `model_width`; a prediction is stored as (W,) numbers, W = `stored_width`.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Discriminator, Field, FiniteFloat, NonNegativeInt, PositiveInt, Tag, model_validator

from schemas.feature_kinds import Document

# Places of labels are stored as float32, which holds every whole number up to here.
MAX_COLUMNS = 1 << 24
# Stored numbers: a value of Redis stays at 64 kB, and an answer at a few hundred.
MAX_STORED = 1 << 14

Decimals = Annotated[int, Field(ge=0, le=15)]


class Calibration(Document):
    """Raw model output to stored output: sigmoid or nothing, of `scale * x + shift`, then clipped."""

    kind: Literal["linear", "sigmoid"] = "linear"
    scale: FiniteFloat = 1.0
    shift: FiniteFloat = 0.0
    minimum: FiniteFloat | None = None
    maximum: FiniteFloat | None = None


class Output(Document):
    """One column of the model's output, a number; `decimals` is how it is written in an answer."""

    name: str
    calibration: Calibration = Calibration()
    decimals: NonNegativeInt = 6

    @property
    def columns(self) -> int:
        """Of the model's result."""
        return 1

    @property
    def stored_names(self) -> tuple[str, ...]:
        """A name for each number that is stored."""
        return (self.name,)


class VectorOutput(Document):
    """`size` columns, calibrated alike, stored as they are and answered as one list of numbers."""

    kind: Literal["vector"] = "vector"
    name: str
    size: Annotated[int, Field(ge=1, le=MAX_STORED)]
    calibration: Calibration = Calibration()
    decimals: Decimals = 6

    @property
    def columns(self) -> int:
        return self.size

    @property
    def stored_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}[{place}]" for place in range(self.size))


class TopKOutput(Document):
    """A score for each of many labels, of which the k best are stored: best first, of equals the one named first.

    Stored as k pairs of the label's place and its score; answered as a list of `{"label", "score"}`. Labels are
    given by name, or by their number alone (`size`): their names are then their places, in decimal.
    """

    kind: Literal["top_k"] = "top_k"
    name: str
    k: Annotated[PositiveInt, Field(le=MAX_STORED // 2)]
    labels: tuple[str, ...] | None = None
    size: Annotated[int, Field(ge=1, le=MAX_COLUMNS)] | None = None
    calibration: Calibration = Calibration()
    decimals: Decimals = 6

    @model_validator(mode="after")
    def _labels_hold(self) -> Self:
        if (self.labels is None) == (self.size is None):
            raise ValueError("top_k needs labels, or their number as size, and not both")
        if self.labels is not None and len(set(self.labels)) != len(self.labels):
            raise ValueError("top_k names a label twice")
        if not self.k <= self.columns <= MAX_COLUMNS:
            raise ValueError(f"top_k of {self.columns} labels cannot keep {self.k}")
        return self

    @property
    def columns(self) -> int:
        return len(self.labels) if self.labels is not None else self.size or 0

    def label(self, place: int) -> str:
        return str(place) if self.labels is None else self.labels[place]

    @property
    def stored_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}[{rank}].{part}" for rank in range(self.k) for part in ("label", "score"))


def _kind(given: object) -> str:
    found = given.get("kind", "number") if isinstance(given, Mapping) else getattr(given, "kind", "number")
    return str(found)


AnyOutput = Annotated[
    Annotated[Output, Tag("number")]
    | Annotated[VectorOutput, Tag("vector")]
    | Annotated[TopKOutput, Tag("top_k")],
    Discriminator(_kind),
]


class ThresholdLabel(Document):
    """Two labels and a threshold over one probability; confidence is the probability of the label given."""

    kind: Literal["threshold"] = "threshold"
    output: str
    threshold: FiniteFloat
    at_or_above: str
    below: str


class ArgmaxLabel(Document):
    """The label of the largest of several outputs, the first of equals; confidence is that output."""

    kind: Literal["argmax"] = "argmax"
    outputs: tuple[str, ...]
    labels: tuple[str, ...]

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if len(self.outputs) != len(self.labels) or not self.outputs:
            raise ValueError("argmax needs a label for each output")
        return self


Label = Annotated[ThresholdLabel | ArgmaxLabel, Field(discriminator="kind")]


class Rule(Document):
    """A business rule: where the output compares so, the answer's label is this one. The last that holds wins."""

    output: str
    compare: Literal[">=", "<", ">", "<="]
    value: FiniteFloat
    label: str


class Span(NamedTuple):
    """Where an output lies: `columns` of the model's result, `stored` of what is stored."""

    output: Output | VectorOutput | TopKOutput
    columns: slice
    stored: slice


class OutputSpecification(Document):
    """Everything between raw outputs and the answer. `default` is the degraded answer's stored outputs, (W,).

    Label and rules are of outputs that are single numbers.
    """

    outputs: tuple[AnyOutput, ...]
    label: Label | None = None
    rules: tuple[Rule, ...] = ()
    default: tuple[FiniteFloat, ...] | None = None

    @model_validator(mode="after")
    def _names_hold(self) -> Self:
        names = [output.name for output in self.outputs]
        if not names or len(set(names)) != len(names):
            raise ValueError("outputs must have distinct names, at least one")
        named = [rule.output for rule in self.rules]
        if isinstance(self.label, ThresholdLabel):
            named.append(self.label.output)
        elif self.label is not None:
            named.extend(self.label.outputs)
        numbers = {output.name for output in self.outputs if isinstance(output, Output)}
        if lists := set(named) & (set(names) - numbers):
            raise ValueError(f"label or rules name outputs that are no single number: {sorted(lists)}")
        if unknown := set(named) - numbers:
            raise ValueError(f"label or rules name unknown outputs: {sorted(unknown)}")
        return self

    @model_validator(mode="after")
    def _widths_hold(self) -> Self:
        if self.stored_width > MAX_STORED:
            raise ValueError(f"{self.stored_width} numbers to be stored for a row, the limit is {MAX_STORED}")
        if self.default is None:
            return self
        if len(self.default) != self.stored_width:
            raise ValueError(f"default has {len(self.default)} values for {self.stored_width} outputs")
        for output, _, stored in self.spans:
            places = self.default[stored][::2] if isinstance(output, TopKOutput) else ()
            if any(not place.is_integer() or not 0 <= place < output.columns for place in places):
                raise ValueError(f"default names a label by a place that {output.name} does not have")
        return self

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """Of each output, in order."""
        found, column, number = [], 0, 0
        for output in self.outputs:
            next_column, next_number = column + output.columns, number + len(output.stored_names)
            found.append(Span(output, slice(column, next_column), slice(number, next_number)))
            column, number = next_column, next_number
        return tuple(found)

    @cached_property
    def model_width(self) -> int:
        """N: columns of the model's result."""
        return int(self.spans[-1].columns.stop)

    @cached_property
    def stored_width(self) -> int:
        """W: numbers stored for a row."""
        return int(self.spans[-1].stored.stop)

    @cached_property
    def has_top_k(self) -> bool:
        return any(isinstance(output, TopKOutput) for output in self.outputs)

    @property
    def stored_names(self) -> tuple[str, ...]:
        """A name for each number that is stored, such as `late`, `embedding[3]` or `topics[0].score`."""
        return tuple(name for output in self.outputs for name in output.stored_names)
