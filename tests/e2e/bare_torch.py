"""What a bare torch call on the bundle gives for the night's features: the truth that every answer is held to."""

from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq

from infra.demo.replay import Answered, Lookup
from infra.demo.run import Night
from runtime.program import load_program
from schemas.bundle import read_folder
from schemas.features import FeatureTransform
from schemas.manifest import Manifest
from schemas.outputs import AnswerMaker, calibrate


@dataclass(frozen=True, slots=True)
class Expected:
    """`outputs` by entity, as an answer gives them."""

    manifest: Manifest
    outputs: dict[str, dict[str, float]]

    def wrong(self, lookups: list[Lookup], answered: list[Answered]) -> list[str]:
        """The answers that are not this entity's, in words."""
        return [line for one in answered if (line := self._wrong(lookups[one.index].entity, one.answer))]

    def _wrong(self, entity: str, answer: dict[str, object]) -> str:
        if answer.get("entity") != entity:
            return f"{entity} was answered with {answer}"
        outputs, wanted = answer["outputs"], self.outputs[entity]
        assert isinstance(outputs, dict)
        for output in self.manifest.output.outputs:
            tolerance = self.manifest.tolerance
            allowed = tolerance.absolute + tolerance.relative * abs(wanted[output.name])
            # Both sides are rounded for the answer, which may add one step of the last decimal.
            if abs(outputs[output.name] - wanted[output.name]) > allowed + 1.01 * 10**-output.decimals:
                return f"{entity}: {output.name} is {outputs[output.name]}, torch says {wanted[output.name]}"
        return ""


def expected_outputs(night: Night) -> Expected:
    manifest = read_folder(night.bundle).manifest
    program = load_program(night.bundle, manifest)
    rows = pq.read_table(night.features).to_pylist()
    records = [{name: row[name] for name in manifest.feature_names} for row in rows]
    done = FeatureTransform(manifest).records(records)
    assert not done.problems
    most = manifest.max_batch_rows
    batches = (
        {name: tensor[start : start + most] for name, tensor in done.tensors.items()}
        for start in range(0, len(rows), most)
    )
    stored = np.concatenate([calibrate(manifest.output, program(batch)) for batch in batches])
    answers = AnswerMaker(manifest.output)
    return Expected(
        manifest, {row["entity"]: answers.answer(stored[i].tolist()).outputs for i, row in enumerate(rows)}
    )
