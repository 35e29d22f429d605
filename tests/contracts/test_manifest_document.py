"""The manifest: golden text, and that what cannot work is refused in words."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from schemas.manifest import Manifest, bundle_digest

GOLDEN = Path(__file__).parent / "golden" / "manifest.json"
TEXT = GOLDEN.with_name("manifest-text.json")


def changed(*path: str | int, to: object, golden: Path = GOLDEN) -> dict[str, Any]:
    """The golden manifest with the value at `path` replaced."""
    document: Any = json.loads(golden.read_text())
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    result: dict[str, Any] = document
    return result


def text(*path: str | int, to: object) -> dict[str, Any]:
    """The golden manifest with a text feature, changed."""
    return changed(*path, to=to, golden=TEXT)


INPUTS = json.loads(TEXT.read_text())["inputs"]


def test_the_golden_manifest_reads_and_writes_back() -> None:
    manifest = Manifest.model_validate_json(GOLDEN.read_bytes())
    assert json.loads(manifest.model_dump_json()) == json.loads(GOLDEN.read_text())
    assert manifest.feature_names == ("distance", "hour", "carrier")
    assert manifest.output_names == ("late_probability", "delay_minutes")


def test_the_golden_manifest_with_text_reads_and_writes_back() -> None:
    manifest = Manifest.model_validate_json(TEXT.read_bytes())
    assert json.loads(manifest.model_dump_json()) == json.loads(TEXT.read_text())
    assert [tensor.width for tensor in manifest.inputs] == [-1, -1, 1]
    assert manifest.text_features["review"].length_buckets == (8, 16, 48)


def test_what_a_text_feature_leaves_out_has_defaults() -> None:
    document = changed("features", 0, to={"type": "text", "name": "review", "max_tokens": 100}, golden=TEXT)
    document["inputs"][0] = {"name": "ids", "dtype": "int64", "features": ["review"]}
    manifest = Manifest.model_validate(document)
    review = manifest.text_features["review"]
    assert (review.length_buckets, review.max_characters) == ((8, 16, 32, 64, 100), 3200)
    assert (review.padding_id, review.missing) == (None, None)
    assert [tensor.part for tensor in manifest.inputs] == ["tokens", "mask", None]
    assert Manifest.model_validate_json(manifest.model_dump_json()) == manifest


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
        (changed("freshness", to={"stale_while_revalidate_s": 5}), "stale_while_revalidate_s needs max_age_s"),
        (
            text("files", to={"model.pt2": "a" * 64, "baseline.parquet": "b" * 64, "LICENSE": "c" * 64}),
            "files lack",
        ),
        (text("files", "tokenizer.json", to="D" * 64), "should match pattern"),
        (text("features", 0, "max_tokens", to=0), "greater than 0"),
        (text("features", 0, "max_tokens", to=1 << 20), "less than or equal to"),
        (text("features", 0, "max_tokens", to=64), "the last of length_buckets is 48, not max_tokens, 64"),
        (text("features", 0, "length_buckets", to=[16, 8, 48]), "ascending"),
        (text("features", 0, "length_buckets", to=[]), "ascending"),
        (text("features", 0, "length_buckets", to=[1, 48]), "must begin at 2"),
        (text("features", 0, "padding_id", to=-1), "greater than or equal to 0"),
        (text("inputs", 0, "dtype", to="float32"), "text gives an int64 tensor of its own"),
        (text("inputs", 1, "dtype", to="float32"), "text gives an int64 tensor of its own"),
        (text("inputs", 0, "part", to="mask"), "inputs must use each feature once: .'review'"),
        (text("inputs", 1, "part", to="tokens"), "inputs must use each feature once: .'review'"),
        (text("inputs", 1, "features", to=["hour"]), "is the mask of no text feature"),
        (text("inputs", 1, "features", to=["view"]), "unknown features: .'view'"),
        (text("inputs", 2, "part", to="tokens"), "is the tokens of no text feature"),
        (text("inputs", 2, "part", to="types"), "Input should be 'tokens' or 'mask'"),
        (text("inputs", to=[*INPUTS, {**INPUTS[1], "name": "again"}]), "two masks of one feature"),
        (
            text("inputs", to=[{**INPUTS[0], "features": ["review", "hour"]}]),
            "text gives an int64 tensor of its own",
        ),
    ],
)
def test_what_cannot_work_is_refused_in_words(document: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Manifest.model_validate(document)
