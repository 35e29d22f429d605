"""The output specification of a manifest: golden text with every kind of output."""

import json
from pathlib import Path

from schemas.manifest import OutputSpecification, TopKOutput, VectorOutput

GOLDEN = Path(__file__).parent / "golden" / "outputs.json"


def test_every_kind_of_output_reads_and_writes_back() -> None:
    specification = OutputSpecification.model_validate_json(GOLDEN.read_bytes())
    assert json.loads(specification.model_dump_json()) == json.loads(GOLDEN.read_text())
    assert (specification.model_width, specification.stored_width) == (1 + 3 + 3 + 50_000, 1 + 3 + 4 + 2)


def test_what_a_list_leaves_out_has_defaults() -> None:
    document = {
        "outputs": [{"kind": "vector", "name": "v", "size": 8}, {"kind": "top_k", "name": "t", "k": 1, "size": 9}]
    }
    specification = OutputSpecification.model_validate(document)
    assert specification.outputs == (VectorOutput(name="v", size=8), TopKOutput(name="t", k=1, size=9))
    assert OutputSpecification.model_validate_json(specification.model_dump_json()) == specification
