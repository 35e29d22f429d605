"""Nothing of a hostile `model.pt2` runs, wherever it hides, even where the manifest vouches for its digest."""

import contextlib
import hashlib
import io
import json
import zipfile
from pathlib import Path

import pytest
import torch

from runtime.program import load_program
from schemas.archive import ArchiveError, inspect_archive
from schemas.bundle import Bundle, BundleError, read_folder
from schemas.manifest import MANIFEST_FILE, MODEL_FILE
from tests.support.bundles import linear_bundle
from tests.support.hostile import HOSTILE, LIVE, archive_of, parts_of, saved


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return linear_bundle(tmp_path_factory.mktemp("good") / "bundle")


def _with_model(good: Bundle, folder: Path, data: bytes) -> Bundle:
    """A copy of the bundle with another archive, and a manifest that agrees with it."""
    folder.mkdir()
    for name in good.manifest.files:
        (folder / name).write_bytes((good.folder / name).read_bytes())
    (folder / MODEL_FILE).write_bytes(data)
    document = json.loads((good.folder / MANIFEST_FILE).read_bytes())
    document["files"][MODEL_FILE] = hashlib.sha256(data).hexdigest()
    (folder / MANIFEST_FILE).write_text(json.dumps(document))
    return read_folder(folder)


def _hostile(good: Bundle, place: str, marker: Path) -> bytes:
    parts = parts_of((good.folder / MODEL_FILE).read_bytes())
    parts["data/sample_inputs/model.pt"] = saved(((torch.zeros(2, 2), torch.zeros(2, 1, dtype=torch.int64)), {}))
    HOSTILE[place](parts, marker)
    return archive_of(parts)


@pytest.mark.parametrize("place", HOSTILE)
def test_it_is_refused_and_nothing_runs(good: Bundle, tmp_path: Path, place: str) -> None:
    marker = tmp_path / "ran"
    bundle = _with_model(good, tmp_path / "bundle", _hostile(good, place, marker))

    with pytest.raises(BundleError, match=r"model\.pt2 is refused"):
        load_program(bundle.folder, bundle.manifest)

    assert not marker.exists()


@pytest.mark.parametrize("place", LIVE)
@pytest.mark.filterwarnings("ignore")
def test_the_payloads_are_live(good: Bundle, tmp_path: Path, place: str) -> None:
    """Without the inspection, torch's loader runs them: what is refused above is not harmless."""
    marker = tmp_path / "ran"
    data = _hostile(good, place, marker)

    with contextlib.suppress(Exception):
        torch.export.load(io.BytesIO(data))

    assert marker.exists()


def test_harmless_sample_inputs_are_accepted_and_left_out(good: Bundle, tmp_path: Path) -> None:
    parts = parts_of((good.folder / MODEL_FILE).read_bytes())
    parts["data/sample_inputs/model.pt"] = saved(((torch.zeros(2, 2), torch.zeros(2, 1, dtype=torch.int64)), {}))
    data = archive_of(parts)

    bundle = _with_model(good, tmp_path / "bundle", data)

    load_program(bundle.folder, bundle.manifest)
    assert inspect_archive(data).sample_inputs is not None
    assert parts_of(inspect_archive(data).to_bytes())["data/sample_inputs/model.pt"] == b""


def _compressed(parts: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**parts, "data/weights/weight_9": bytes(10_000_000)}.items():
            archive.writestr(f"model/{name}", content)
    return buffer.getvalue()


def _linked(parts: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO(archive_of(parts))
    with zipfile.ZipFile(buffer, "a") as archive:
        link = zipfile.ZipInfo("model/data/weights/weight_9")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    return buffer.getvalue()


def _overlapping(parts: dict[str, bytes]) -> bytes:
    """Many central entries that share one local entry: small on disk, large when read."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model/data/weights/weight_0", bytes(100_000))
        (only,) = archive.filelist
        archive.filelist.extend([only] * 50)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda parts: archive_of(parts)[:-100], "not a whole zip"),
        (lambda parts: b"", "not a whole zip"),
        (lambda parts: archive_of({**parts, "../../escaped": b"x"}), "leads out"),
        (lambda parts: archive_of({**parts, "data/weights/../../x": b"x"}), "leads out"),
        (lambda parts: archive_of({**parts, "data\\weights": b"x"}), "leads out"),
        (lambda parts: archive_of(parts, "/model"), "root folder|leads out"),
        (lambda parts: archive_of({**parts, "data/weights/weight_x": b"x"}), "none that torch.export writes"),
        (lambda parts: archive_of({name: parts[name] for name in parts if "models" not in name}), "missing"),
        (_compressed, "compressed"),
        (_linked, "link"),
        (_overlapping, "overlap"),
    ],
)
def test_a_malformed_archive_is_refused(good: Bundle, change, message: str) -> None:  # type: ignore[no-untyped-def]
    parts = parts_of((good.folder / MODEL_FILE).read_bytes())

    with pytest.raises(ArchiveError, match=message):
        inspect_archive(change(parts))


def test_entries_with_one_name_are_refused(good: Bundle) -> None:
    parts = parts_of((good.folder / MODEL_FILE).read_bytes())
    data = archive_of({**parts, "data/constants/tensor_7": b"a", "data/constants/tensor_8": b"b"})

    with pytest.raises(ArchiveError, match="twice"):
        inspect_archive(data.replace(b"constants/tensor_8", b"constants/tensor_7"))


def test_every_cut_of_an_archive_is_refused(good: Bundle) -> None:
    data = (good.folder / MODEL_FILE).read_bytes()

    for length in range(0, len(data), 97):
        with pytest.raises(ArchiveError):
            inspect_archive(data[:length])
