"""The manifest: golden text, and that what cannot work is refused in words."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from schemas.manifest import Manifest, bundle_digest

GOLDEN = Path(__file__).parent / "golden" / "manifest.json"


def changed(*path: str | int, to: object) -> dict[str, Any]:
    """The golden manifest with the value at `path` replaced."""
    document: Any = json.loads(GOLDEN.read_text())
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    result: dict[str, Any] = document
    return result


def test_the_golden_manifest_reads_and_writes_back() -> None:
    manifest = Manifest.model_validate_json(GOLDEN.read_bytes())
    assert json.loads(manifest.model_dump_json()) == json.loads(GOLDEN.read_text())
    assert manifest.feature_names == ("distance", "hour", "carrier")
    assert manifest.output_names == ("late_probability", "delay_minutes")


def test_the_digest_is_of_the_bytes() -> None:
    assert bundle_digest(b"{}") == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (changed("codec", to=2), "codec 2 is newer than this program's 1"),
        (changed("name", to="Delay"), "not a model name"),
        (changed("version", to="7\n"), "not a version name"),
        (changed("files", to={}), "files lack"),
        (changed("inputs", 0, "features", to=[]), "inputs must use each feature once"),
        (changed("inputs", 0, "features", to=["carrier"]), "inputs must use each feature once"),
        (changed("inputs", 0, "dtype", to="int64"), "which .* cannot give"),
        (changed("features", 1, "edges", to=[12.0, 6.0]), "ascending"),
        (changed("features", 2, "vocabulary", to=["UA", "UA"]), "names a value twice"),
        (changed("golden", 0, "outputs", to=[0.5]), "another number of outputs"),
        (changed("output", "label", "output", to="lateness"), "unknown outputs"),
        (changed("output", "default", to=[0.2]), "default has 1 values for 2 outputs"),
        (changed("max_batch_row", to=3), "Extra inputs are not permitted"),
    ],
)
def test_what_cannot_work_is_refused_in_words(document: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Manifest.model_validate(document)
