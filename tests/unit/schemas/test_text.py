"""Text to token ids: cut, padded and masked alike in any company, and what a bad tokenizer is told."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from schemas.features import FeatureTransform
from schemas.manifest import (
    REQUIRED_FILES,
    TOKENIZER_FILE,
    InputTensor,
    Manifest,
    Output,
    OutputSpecification,
    TextFeature,
)
from schemas.text import MAX_TOKENIZER_BYTES, TokenizerError
from tests.support.texts import word_tokenizer, words

ROOT = Path(__file__).parents[3]
PAD, UNK, CLS, SEP = range(4)


def manifest_of(*features: TextFeature) -> Manifest:
    return Manifest(
        name="text",
        version="1",
        files=dict.fromkeys((*REQUIRED_FILES, TOKENIZER_FILE), "0" * 64),
        torch_version="none",
        created_at="2026-11-29T00:00:00Z",
        features=features,
        inputs=[
            InputTensor(name=f"{feature.name}.{part}", dtype="int64", features=(feature.name,), part=part)
            for feature in features
            for part in ("tokens", "mask")
        ],
        output=OutputSpecification(outputs=(Output(name="p"),)),
        max_batch_rows=64,
        golden=(),
    )


def transform_of(*features: TextFeature, tokenizer: str | None = None) -> FeatureTransform:
    raw = word_tokenizer().to_str() if tokenizer is None else tokenizer
    return FeatureTransform(manifest_of(*features), raw.encode())


TEXT = TextFeature(name="x", max_tokens=32)


def changed(**parts: object) -> str:
    """The tokenizer's document with some of it replaced."""
    return json.dumps({**json.loads(word_tokenizer().to_str()), **parts})


def unpadded(tokenizer: Tokenizer) -> str:
    tokenizer.no_padding()
    return str(tokenizer.to_str())


def left_padding() -> str:
    tokenizer = word_tokenizer()
    tokenizer.enable_padding(direction="left")
    return str(tokenizer.to_str())


def test_a_batch_is_padded_to_the_bucket_of_its_longest_row_and_a_row_to_its_own() -> None:
    done = transform_of(TEXT).records([{"x": "w0"}, {"x": words(9)}, {"x": ""}])
    assert not done.problems
    assert done.tensors["x.tokens"].shape == done.tensors["x.mask"].shape == (3, 16)
    assert done.tensors["x.tokens"][0].tolist() == [CLS, 4, SEP, *[PAD] * 13]
    assert done.tensors["x.mask"].sum(axis=1).tolist() == [3, 11, 2]
    alone = done.row(0)
    assert alone["x.tokens"].tolist() == [[CLS, 4, SEP, *[PAD] * 5]]
    assert alone["x.mask"].tolist() == [[1, 1, 1, 0, 0, 0, 0, 0]]
    assert [group.tolist() for group in done.groups()] == [[0, 2], [1]]


def test_default_buckets_are_powers_of_two_up_to_the_limit() -> None:
    assert TextFeature(name="x", max_tokens=100).length_buckets == (8, 16, 32, 64, 100)
    assert TextFeature(name="x", max_tokens=64).length_buckets == (8, 16, 32, 64)
    assert TextFeature(name="x", max_tokens=5).length_buckets == (5,)


@pytest.mark.parametrize("count", [29, 30, 31, 500])
def test_text_is_cut_as_the_tokenizer_cuts_it(count: int) -> None:
    bare = word_tokenizer()
    bare.no_padding()
    bare.enable_truncation(32)
    done = transform_of(TEXT).records([{"x": "w1"}, {"x": words(count)}])
    expected = bare.encode(words(count)).ids
    assert len(expected) == min(count + 2, 32)
    assert done.tensors["x.tokens"][1].tolist() == expected + [PAD] * (32 - len(expected))
    assert done.tensors["x.tokens"][1][len(expected) - 1] == SEP


def test_the_direction_in_which_the_tokenizer_cuts_is_kept() -> None:
    tokenizer = word_tokenizer()
    tokenizer.enable_truncation(1000, stride=3, direction="left")
    done = transform_of(TextFeature(name="x", max_tokens=5), tokenizer=tokenizer.to_str()).records(
        [{"x": "w0 w1 w2 w3 w4"}]
    )
    assert done.tensors["x.tokens"].tolist() == [[CLS, 6, 7, 8, SEP]]


def test_two_texts_have_limits_and_lengths_of_their_own() -> None:
    title, body = TextFeature(name="title", max_tokens=8), TextFeature(name="body", max_tokens=64, missing="w0")
    done = transform_of(title, body).records([{"title": words(90), "body": words(90)}, {"title": ""}])
    assert not done.problems
    assert {name: tensor.shape for name, tensor in done.tensors.items()} == {
        "title.tokens": (2, 8), "title.mask": (2, 8), "body.tokens": (2, 64), "body.mask": (2, 64)
    }  # fmt: skip
    assert done.row(1)["body.tokens"].tolist() == [[CLS, 4, SEP, *[PAD] * 5]]


@pytest.mark.parametrize("text", ["", " ", "\x00", "w0\x00w1", "a\nb", "é", "e\u0301", "\U0001f6eb", "\ufeffw0"])
def test_any_valid_text_is_taken(text: str) -> None:
    assert not transform_of(TEXT).records([{"x": text}]).problems


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("\udc00", r"must be text of valid Unicode, not '\udc00'"),
        ("w0 " * 400 + "\ud83d", "must be text of valid Unicode"),
        (7, "must be text of valid Unicode, not 7"),
        (b"w0", "must be text of valid Unicode"),
        (None, "required, and missing"),
    ],
)
def test_what_is_no_text_is_a_problem_of_its_row_alone(value: object, reason: str) -> None:
    done = transform_of(TEXT).records([{"x": "w0"}, {"x": value}, {"x": "w1 w2"}])
    assert [(problem.row, problem.feature) for problem in done.problems] == [(1, "x")]
    assert reason in done.problems[0].reason
    assert done.tensors["x.mask"].sum(axis=1).tolist() == [3, 0, 4]


def test_only_the_first_characters_are_read() -> None:
    few = TextFeature(name="x", max_tokens=32, max_characters=5)
    done = transform_of(few).records([{"x": "w0 w1 w2 w3"}])
    assert done.tensors["x.tokens"][0].tolist() == [CLS, 4, 5, SEP, *[PAD] * 4]


def test_many_threads_share_a_transform() -> None:
    transform = transform_of(TEXT, TextFeature(name="y", max_tokens=8))
    texts = [words(count % 50, count) for count in range(400)]
    alone = [transform.records([{"x": text, "y": text}]).tensors for text in texts]

    def encode(place: int) -> bool:
        text = texts[place % len(texts)]
        found = transform.records([{"x": text, "y": text}]).tensors
        return all(np.array_equal(found[name], alone[place % len(texts)][name]) for name in found)

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(encode, range(4000)))


def test_encoding_starts_no_thread_and_a_fork_goes_on_encoding() -> None:
    script = """
import os
from tests.unit.schemas.test_text import TEXT, transform_of
transform = transform_of(TEXT)
transform.records([{"x": "w0 w1"}] * 500)
assert len(os.listdir("/proc/self/task")) == 1, os.listdir("/proc/self/task")
child = os.fork()
if child == 0:
    os._exit(0 if transform.records([{"x": "w0"}] * 500).tensors["x.mask"].sum() == 1500 else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    environment = {
        "PYTHONPATH": str(ROOT),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PATH": "/usr/bin",
    }
    subprocess.run([sys.executable, "-c", script], check=True, env=environment, timeout=60)


def test_a_bundle_without_text_does_not_load_the_library() -> None:
    script = "import sys, schemas.features, schemas.bundle; sys.exit('tokenizers' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": str(ROOT)}, timeout=60)


def test_a_large_vocabulary_of_byte_pairs_pads_by_its_own_token() -> None:
    tokenizer = Tokenizer(models.BPE({"<pad>": 0, "a": 1, "b": 2, "ab": 3}, [("a", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    feature = TextFeature(name="x", max_tokens=8)
    done = transform_of(feature, tokenizer=tokenizer.to_str()).records([{"x": "ab ba"}])
    assert done.tensors["x.tokens"].tolist() == [[3, 2, 1, 0, 0, 0, 0, 0]]
    other = TextFeature(name="x", max_tokens=8, padding_id=9)
    done = transform_of(other, tokenizer=tokenizer.to_str()).records([{"x": "ab ba"}])
    assert done.tensors["x.tokens"].tolist() == [[3, 2, 1, 9, 9, 9, 9, 9]]


@pytest.mark.parametrize(
    ("tokenizer", "reason"),
    [
        ("", "it is no tokenizer"),
        ("{}", "it is no tokenizer"),
        ("[" * 1_000_000, "it is no tokenizer"),
        ('{"normalizer":' + '{"type":"Sequence","normalizers":[' * 500 + "]}" * 500 + "}", "it is no tokenizer"),
        ('{"version": "1.0", "model": {"type": "Guess"}}', "it is no tokenizer"),
        (changed(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}), "it is no tokenizer"),
        (" " * (MAX_TOKENIZER_BYTES + 1), "it is over 64 MiB"),
        ("null", "it is no tokenizer"),
        (unpadded(Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))), "it names no padding token"),
        (unpadded(Tokenizer(models.BPE({"<pad>": 0, "a": 1}, [], dropout=0.1))), "its model has dropout"),
        (left_padding(), "it pads on the left"),
    ],
)
def test_a_hostile_or_malformed_tokenizer_is_refused(tokenizer: str, reason: str) -> None:
    with pytest.raises(TokenizerError, match=reason):
        transform_of(TEXT, tokenizer=tokenizer)


def test_bytes_that_are_not_utf8_and_no_tokenizer_at_all_are_refused() -> None:
    manifest = manifest_of(TEXT)
    with pytest.raises(TokenizerError, match="not UTF-8"):
        FeatureTransform(manifest, b"\xff\xfe{}")
    with pytest.raises(TokenizerError, match="there is no tokenizer"):
        FeatureTransform(manifest)


def test_a_limit_that_the_special_tokens_alone_exceed_is_refused() -> None:
    with pytest.raises(TokenizerError, match="it does not fit feature x: gives"):
        transform_of(TextFeature(name="x", max_tokens=1))
