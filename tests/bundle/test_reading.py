"""Reading a bundle says which file is wrong, and why; loading says which golden row."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from batch_scoring.bundle.__main__ import main
from runtime.program import load_program
from schemas.bundle import Bundle, BundleError, fetch_bundle, is_allowed, read_folder
from schemas.manifest import BASELINE_FILE, LICENCE_FILE, MANIFEST_FILE, MODEL_FILE, Manifest
from tests.support.bundles import linear_bundle


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return linear_bundle(tmp_path_factory.mktemp("good") / "bundle")


@pytest.fixture
def copy(good: Bundle, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good.folder, tmp_path / "bundle"))


def _change(folder: Path, **members: object) -> None:
    path = folder / MANIFEST_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **members}))


def test_a_good_bundle_is_fetched_into_the_cache(good: Bundle, tmp_path: Path) -> None:
    bundle = fetch_bundle(str(good.folder), good.digest, tmp_path / "cache", [str(good.folder.parent)])

    assert bundle.folder == tmp_path / "cache" / good.digest
    assert bundle.manifest == good.manifest
    assert sorted(path.name for path in bundle.folder.iterdir()) == sorted([*good.manifest.files, MANIFEST_FILE])
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [good.digest]
    load_program(bundle.folder, bundle.manifest)


def test_a_bundle_of_another_file_system(good: Bundle, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    files.put(str(good.folder), "/models/tiny/1", recursive=True)

    bundle = fetch_bundle("memory://models/tiny/1", good.digest, tmp_path, ["memory://models"])

    assert bundle.digest == good.digest


def test_a_damaged_copy_in_the_cache_is_fetched_anew(good: Bundle, tmp_path: Path) -> None:
    first = fetch_bundle(str(good.folder), good.digest, tmp_path, [str(good.folder)])
    (first.folder / MODEL_FILE).write_bytes(b"damaged")

    again = fetch_bundle(str(good.folder), good.digest, tmp_path, [str(good.folder)])

    assert (again.folder / MODEL_FILE).read_bytes() == (good.folder / MODEL_FILE).read_bytes()


def test_a_failed_fetch_leaves_nothing(copy: Path, good: Bundle, tmp_path: Path) -> None:
    (copy / MODEL_FILE).unlink()
    cache = tmp_path / "cache"

    with pytest.raises(BundleError, match=r"model\.pt2 is missing"):
        fetch_bundle(str(copy), good.digest, cache, [str(copy)])

    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("name", [MODEL_FILE, BASELINE_FILE, LICENCE_FILE])
def test_a_changed_file_is_named(copy: Path, name: str) -> None:
    with (copy / name).open("ab") as file:
        file.write(b"x")

    with pytest.raises(BundleError, match=f"{name} has sha256"):
        read_folder(copy)


def test_a_truncated_archive_is_named(copy: Path) -> None:
    data = (copy / MODEL_FILE).read_bytes()
    (copy / MODEL_FILE).write_bytes(data[: len(data) // 2])

    with pytest.raises(BundleError, match="cut short"):
        read_folder(copy)


def test_another_digest_than_expected(copy: Path) -> None:
    with pytest.raises(BundleError, match="not the expected"):
        read_folder(copy, "0" * 64)


def test_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"has no manifest\.json"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"codec": 2}, "codec 2 is newer"),
        ({"codex": 1}, "codex"),
        ({"files": {"../../etc/passwd": "0" * 64}}, "files lack"),
    ],
)
def test_a_manifest_that_this_program_does_not_take(copy: Path, members: dict[str, object], message: str) -> None:
    _change(copy, **members)

    with pytest.raises(BundleError, match=message):
        read_folder(copy)


def test_a_file_name_that_leads_out(copy: Path, good: Bundle) -> None:
    _change(copy, files={**good.manifest.files, "../secret": "0" * 64})

    with pytest.raises(BundleError, match="no plain file name"):
        read_folder(copy)


def test_a_failed_golden_row_is_named(good: Bundle) -> None:
    row = good.manifest.golden[3]
    wrong = row.model_copy(update={"outputs": (row.outputs[0] + 0.01, row.outputs[1])})
    manifest = good.manifest.model_copy(update={"golden": (*good.manifest.golden[:3], wrong)})

    with pytest.raises(BundleError, match="golden row 3 at batch 1: late is"):
        load_program(good.folder, manifest)


def test_a_newer_torch(good: Bundle) -> None:
    manifest = good.manifest.model_copy(update={"torch_version": "2.99.0"})

    with pytest.raises(BundleError, match=r"exported by torch 2\.99\.0, newer than this"):
        load_program(good.folder, manifest)


def test_golden_rows_are_required(good: Bundle) -> None:
    with pytest.raises(BundleError, match="no golden row"):
        load_program(good.folder, good.manifest.model_copy(update={"golden": ()}))


def test_a_program_swapped_after_the_check(copy: Path, good: Bundle) -> None:
    (copy / MODEL_FILE).write_bytes(b"PK")

    with pytest.raises(BundleError, match=r"model\.pt2 has sha256"):
        load_program(copy, good.manifest)


@pytest.mark.parametrize(
    ("url", "allowed", "is_so"),
    [
        ("/bundles/delay/1", ["/bundles"], True),
        ("/bundles", ["/bundles/"], True),
        ("file:///bundles/delay", ["/bundles"], True),
        ("/bundles-of-others/1", ["/bundles"], False),
        ("/bundles/../etc", ["/bundles"], False),
        ("s3://ours/models/7", ["s3://ours/models"], True),
        ("s3://ours/models-x/7", ["s3://ours/models"], False),
        ("s3://theirs/models/7", ["s3://ours/models"], False),
        ("zip://x::s3://ours/models", ["s3://ours/models"], False),
        ("http://ours/models", [], False),
    ],
)
def test_allowed_addresses(url: str, allowed: list[str], is_so: bool) -> None:
    assert is_allowed(url, allowed) is is_so


def test_a_link_does_not_lead_out_of_an_allowed_folder(good: Bundle, tmp_path: Path) -> None:
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed" / "link").symlink_to(good.folder)

    assert not is_allowed(str(tmp_path / "allowed" / "link"), [str(tmp_path / "allowed")])
    with pytest.raises(BundleError, match="none of the allowed"):
        fetch_bundle(str(tmp_path / "allowed" / "link"), good.digest, tmp_path, [str(tmp_path / "allowed")])


def test_check_prints_what_the_bundle_is(good: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(good.folder), "--digest", good.digest]) == 0

    out = capsys.readouterr().out
    assert "tiny version 1: good" in out
    assert "airline" in out


def test_check_says_what_is_wrong(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / LICENCE_FILE).unlink()

    assert main(["check", str(copy)]) == 1
    assert "LICENSE is missing" in " ".join(capsys.readouterr().err.split())


def test_digest(good: Bundle, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["digest", str(good.folder)]) == 0
    assert capsys.readouterr().out == f"{good.digest}\n"


def test_loading_leaves_the_process_as_it_was(good: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", raising=False)
    threads = torch.get_num_threads()
    load_program(good.folder, good.manifest)

    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ
    assert torch.get_num_threads() == threads


def test_the_manifest_reads_back(good: Bundle) -> None:
    assert Manifest.model_validate_json((good.folder / MANIFEST_FILE).read_bytes()) == good.manifest
