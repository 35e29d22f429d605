"""Bundles that take text: the tokenizer travels with them, checked, and padding does not change an answer."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from batch_scoring.bundle.__main__ import main
from batch_scoring.bundle.build import build_bundle
from batch_scoring.bundle.specification import Specification
from runtime.program import load_program
from schemas.bundle import Bundle, BundleError, fetch_bundle, fetch_tokenizer, load_transform, read_folder
from schemas.manifest import (
    MANIFEST_FILE,
    TOKENIZER_FILE,
    InputTensor,
    Manifest,
    NumberFeature,
    Output,
    OutputSpecification,
    TextFeature,
    bundle_digest,
)
from schemas.text import MAX_TOKENIZER_BYTES
from tests.support.bundles import CREATED_AT, LICENCE, Averaging, linear_bundle, text_bundle
from tests.support.texts import with_tokenizer, word_tokenizer, words


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return text_bundle(tmp_path_factory.mktemp("good") / "bundle")


@pytest.fixture
def copy(good: Bundle, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good.folder, tmp_path / "bundle"))


def alone(bundle: Bundle, record: dict[str, object]) -> torch.Tensor:
    """(1, K) of the program, at the row's own length."""
    program, transform = (
        load_program(bundle.folder, bundle.manifest),
        load_transform(bundle.folder, bundle.manifest),
    )
    return torch.from_numpy(program(transform.records([record]).row(0)))


def test_a_row_has_one_output_in_any_company_and_at_any_length(good: Bundle) -> None:
    program, transform = load_program(good.folder, good.manifest), load_transform(good.folder, good.manifest)
    records = [
        {"text": text, "number": 0.5}
        for text in ("w1", "", words(510), words(900, 5), words(30), *[words(900, 3)] * 59)
    ]
    done = transform.records(records)
    together = program(done.tensors)
    assert done.tensors["ids"].shape == (64, 512)
    for row in range(5):
        np.testing.assert_allclose(program(done.row(row))[0], together[row], rtol=1e-5, atol=1e-5)
        for lengths in done.paddings():
            if lengths["text"] >= done.texts["text"].lengths[row]:
                padded = program(done.take(np.array([row]), lengths))
                np.testing.assert_allclose(padded[0], together[row], rtol=1e-5, atol=1e-5)
    assert len({tuple(np.round(outputs, 3)) for outputs in together[:5]}) == 5


def test_text_over_the_limit_counts_up_to_the_limit(good: Bundle) -> None:
    program, transform = load_program(good.folder, good.manifest), load_transform(good.folder, good.manifest)
    done = transform.records([{"text": words(510)}, {"text": words(510) + " w7 w8"}, {"text": words(509) + " w3"}])
    outputs = program(done.tensors)
    assert np.array_equal(outputs[0], outputs[1])
    assert not np.array_equal(outputs[0], outputs[2])


def test_golden_rows_are_of_all_lengths(good: Bundle) -> None:
    done = load_transform(good.folder, good.manifest).records([row.record for row in good.manifest.golden])
    assert {8, 32, 128, 512} <= set(done.texts["text"].lengths.tolist())


def test_the_tokenizer_is_fetched_with_the_bundle_and_by_itself(good: Bundle, tmp_path: Path) -> None:
    bundle = fetch_bundle(str(good.folder), good.digest, tmp_path / "cache", [str(good.folder)])
    assert (bundle.folder / TOKENIZER_FILE).read_bytes() == (good.folder / TOKENIZER_FILE).read_bytes()
    raw = fetch_tokenizer(str(good.folder), good.manifest, [str(good.folder)])
    assert raw == (good.folder / TOKENIZER_FILE).read_bytes()
    with pytest.raises(BundleError, match="none of the allowed"):
        fetch_tokenizer(str(good.folder), good.manifest, ["/elsewhere"])


def test_a_bundle_without_text_has_no_tokenizer(tmp_path: Path) -> None:
    plain = linear_bundle(tmp_path / "plain")
    assert TOKENIZER_FILE not in plain.manifest.files
    assert fetch_tokenizer(str(plain.folder), plain.manifest, [str(plain.folder)]) is None


@pytest.mark.parametrize("how", ["changed", "missing", "another"])
def test_a_tokenizer_that_is_not_the_manifests_is_refused(copy: Path, good: Bundle, how: str) -> None:
    path = copy / TOKENIZER_FILE
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] if how == "changed" else word_tokenizer("<pad>").to_str().encode())
    message = r"tokenizer\.json is missing" if how == "missing" else r"tokenizer\.json has sha256"
    for read in (
        lambda: read_folder(copy, good.digest),
        lambda: fetch_bundle(str(copy), good.digest, copy.parent / "cache", [str(copy)]),
        lambda: load_program(copy, good.manifest),
        lambda: load_transform(copy, good.manifest),
        lambda: fetch_tokenizer(str(copy), good.manifest, [str(copy)]),
    ):
        with pytest.raises(BundleError, match=message):
            read()


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "it is no tokenizer"),
        (b"\xff", "it is not UTF-8"),
        (b"[" * 100_000 + b"]" * 100_000, "it is no tokenizer"),
        (b'{"model": ' + b'{"a": ' * 5000 + b"1" + b"}" * 5001, "it is no tokenizer"),
        (b'{"version": "1.0", "model": {"type": "WordLevel"}}', "it is no tokenizer"),
    ],
)
def test_a_hostile_tokenizer_with_the_right_digest_is_refused_in_words(
    copy: Path, raw: bytes, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = with_tokenizer(copy, raw)
    manifest = read_folder(copy, digest).manifest  # its files agree
    for use in (load_program, load_transform):
        with pytest.raises(BundleError, match=rf"tokenizer\.json is refused: {reason}"):
            use(copy, manifest)
    assert main(["check", str(copy)]) == 1
    assert "tokenizer.json is refused" in capsys.readouterr().err.replace("\n", " ")


def test_a_huge_tokenizer_is_not_read_to_its_end(copy: Path, tmp_path: Path) -> None:
    with (copy / TOKENIZER_FILE).open("wb") as file:
        file.truncate(8 << 30)  # sparse: to read it would take longer than this test may
    manifest = Manifest.model_validate_json((copy / MANIFEST_FILE).read_bytes())
    digest = bundle_digest((copy / MANIFEST_FILE).read_bytes())
    message = rf"tokenizer\.json is over {MAX_TOKENIZER_BYTES >> 20} MiB"
    with pytest.raises(BundleError, match=message):
        fetch_bundle(str(copy), digest, tmp_path / "cache", [str(copy)])
    with pytest.raises(BundleError, match=message):
        load_transform(copy, manifest)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_tokenizer_of_another_vocabulary_fails_the_golden_rows(copy: Path) -> None:
    digest = with_tokenizer(copy, word_tokenizer(padding_first=False).to_str().encode())
    manifest = read_folder(copy, digest).manifest
    with pytest.raises(BundleError, match="golden row 0 at batch 1, text padded to 8: late is"):
        load_program(copy, manifest)


def specification(**changes: object) -> Specification:
    parts: dict[str, object] = {
        "name": "mean",
        "version": "1",
        "created_at": CREATED_AT,
        "features": (TextFeature(name="text", max_tokens=32),),
        "inputs": (InputTensor(name="ids", dtype="int64", features=("text",)),),
        "output": OutputSpecification(outputs=(Output(name="x"),)),
        "max_batch_rows": 8,
        "tokenizer": word_tokenizer(padding_first=False).to_str(),
        **changes,
    }
    return Specification(**parts)  # type: ignore[arg-type]


COLUMNS = {"text": [words(count, count) for count in range(20)]}


def test_a_model_that_counts_padding_is_not_built(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"golden row . at batch ., text padded to \d+: x is"):
        build_bundle(tmp_path / "bad", Averaging(), specification(), COLUMNS, LICENCE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [(None, "there is no tokenizer"), ("{}", "it is no tokenizer"), (b"\xff", "it is not UTF-8")],
)
def test_a_specification_without_a_good_tokenizer_is_refused(
    tmp_path: Path, tokenizer: str | bytes | None, message: str
) -> None:
    with pytest.raises(BundleError, match=message):
        build_bundle(tmp_path / "bad", Averaging(), specification(tokenizer=tokenizer), COLUMNS, LICENCE)


class Table(torch.nn.Module):
    """(n, 8) token ids, always, and (n, 1) number, to the first id's row of a table that is too small for some."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(float(rows)).reshape(rows, 1))

    def forward(self, ids: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding(ids[:, 1], self.get_buffer("table")) + number


def test_text_of_one_length_needs_no_open_dimension(tmp_path: Path) -> None:
    features = (TextFeature(name="text", max_tokens=8), NumberFeature(name="n", missing=0.0))
    inputs = (
        InputTensor(name="ids", dtype="int64", features=("text",)),
        InputTensor(name="n", dtype="float32", features=("n",)),
    )
    columns = {**COLUMNS, "n": [0.0] * 20}
    given = specification(features=features, inputs=inputs)
    bundle = build_bundle(tmp_path / "one", Table(300), given, columns, LICENCE)
    assert alone(bundle, {"text": "w5"}).tolist() == [[8.0]]
    with pytest.raises(BundleError, match="fails on the data"):
        build_bundle(tmp_path / "small", Table(6), given, columns, LICENCE)
