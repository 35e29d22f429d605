"""`python -m online.inference profile`, run as a user would, on small bundles."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import orjson
import pytest

from online.inference.profile.measuring import LEAST_SIZES, measure, sizes_to_measure
from schemas.bundle import Bundle
from tests.support.bundles import log_bundle
from tests.support.inference import ROOT

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"


def profile(*arguments: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "online.inference", "profile", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    return subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)


def document(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = orjson.loads(path.read_bytes())
    return read


@pytest.mark.long
def test_an_emulated_device_is_found_again(bundle: Bundle, tmp_path: Path) -> None:
    out, png = tmp_path / "new" / "t4.json", tmp_path / "t4-picture.png"
    done = profile(
        "--bundle", bundle.folder, "--device", "emulated:6,1.2", "--threads", 1, "--out", out, "--png", png
    )
    assert done.returncode == 0, done.stderr
    told = document(out)
    assert told["tau0_ms"] == pytest.approx(6.0, rel=0.15)
    assert told["alpha_ms"] == pytest.approx(1.2, rel=0.06)
    assert told["max_relative_error"] < 0.1
    assert told["is_linear"] is True
    # 2 (6 + 1.2 b) / (6 + 2.4 b) < 1.1 where b > 22.5: of the sizes measured, from 32 on.
    assert told["knee_rows"] == 32
    assert [point["rows"] for point in told["measured"]] == [1, 2, 4, 8, 16, 32, 48, 64]
    for point in told["measured"]:
        expected_ms = 6 + 1.2 * point["rows"]
        assert point["batch_ms"] == pytest.approx(expected_ms, rel=0.1)
        assert point["rows_per_s"] == pytest.approx(1e3 * point["rows"] / point["batch_ms"])
        fitted_ms = told["tau0_ms"] + told["alpha_ms"] * point["rows"]
        assert point["relative_error"] == pytest.approx(fitted_ms / point["batch_ms"] - 1)
    assert (told["model"], told["version"], told["digest"]) == ("tiny", "1", bundle.digest)
    assert (told["device"], told["emulated"], told["threads"]) == ("emulated:6,1.2", True, 1)
    assert told["max_batch_rows"] == 64
    assert told["torch_version"].startswith("2.")
    assert png.read_bytes().startswith(PNG_MAGIC)
    assert "knee 32" in done.stdout
    assert "Knee: 32 rows" in done.stdout
    assert f"wrote {out}" in done.stdout
    assert f"wrote {png}" in done.stdout


@pytest.mark.long
def test_a_real_device_and_a_lower_maximum(bundle: Bundle, tmp_path: Path) -> None:
    done = profile(
        "--bundle", bundle.folder, "--device", "cpu", "--threads", 1, "--max-batch-rows", 12, "--rounds", 3,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = document(tmp_path / "profile-tiny-1-cpu.json")
    assert (tmp_path / "profile-tiny-1-cpu.png").read_bytes().startswith(PNG_MAGIC)
    rows = [point["rows"] for point in told["measured"]]
    assert len(rows) == LEAST_SIZES
    assert (rows[0], rows[-1], told["max_batch_rows"]) == (1, 12, 12)
    assert (told["device"], told["emulated"], told["rounds"]) == ("cpu", False, 3)
    # A batch of this model costs a call into torch, whatever its size.
    assert all(0 < point["batch_ms"] < 50 for point in told["measured"])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--device", "tpu:0"), "'tpu:0' is no device: cpu, cuda:N, or emulated:TAU0_MS,ALPHA_MS"),
        (("--device", "cpu", "--rounds", "0"), "'0' is no whole number from 1 on"),
        (("--device", "cpu", "--max-batch-rows", "65"), "--max-batch-rows 65: the bundle takes at most 64"),
        (("--device", "cpu", "--out", "/proc/none/x.json"), "cannot write /proc/none/x.json"),
        ((), "the following arguments are required: --device"),
    ],
)
def test_what_cannot_be_asked_for(bundle: Bundle, arguments: tuple[str, ...], reason: str) -> None:
    done = profile("--bundle", bundle.folder, *arguments)
    assert done.returncode == 2
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_a_device_that_is_not_there(bundle: Bundle, tmp_path: Path) -> None:
    done = profile("--bundle", bundle.folder, "--device", "cuda:99", cwd=tmp_path)
    assert done.returncode == 2
    assert "--device cuda:99: torch " in done.stderr
    assert "CUDA devices here" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_that_is_not_there(tmp_path: Path) -> None:
    done = profile("--bundle", tmp_path / "nothing", "--device", "cpu")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"profile: there is no bundle at {tmp_path / 'nothing'}: not a folder\n"
    done = profile("--bundle", tmp_path, "--device", "cpu")
    assert (done.returncode, done.stderr) == (2, f"profile: {tmp_path} has no manifest.json\n")


def test_a_refused_bundle_leaves_nothing_written(tmp_path: Path) -> None:
    """A file that is not the manifest's, and golden rows that the program does not reproduce."""
    changed = log_bundle(tmp_path / "changed").folder
    wrong = Path(shutil.copytree(changed, tmp_path / "wrong"))
    with (changed / "model.pt2").open("ab") as file:
        file.write(b"x")
    manifest = orjson.loads((wrong / "manifest.json").read_bytes())
    manifest["golden"][0]["outputs"] = [123.0]
    (wrong / "manifest.json").write_bytes(orjson.dumps(manifest))
    for folder, reason in ((changed, "model.pt2 has sha256 "), (wrong, "golden row 0 at batch 1: log_x is ")):
        out = tmp_path / "out.json"
        done = profile("--bundle", folder, "--device", "cpu", "--out", out)
        assert done.returncode == 2
        assert f"profile: {reason}" in done.stderr
        assert "Traceback" not in done.stderr
        assert not out.exists()


@pytest.mark.parametrize(
    ("max_rows", "sizes"),
    [
        (1, [1]),
        (5, [1, 2, 3, 4, 5]),
        (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (16, [1, 2, 4, 8, 10, 12, 14, 16]),
        (64, [1, 2, 4, 8, 16, 32, 48, 64]),
        (300, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]),
    ],
)
def test_sizes_are_powers_of_two_and_more_where_these_are_few(max_rows: int, sizes: list[int]) -> None:
    assert sizes_to_measure(max_rows) == sizes


def test_sizes_take_turns_within_a_round() -> None:
    """Which size runs when, seen from the runs themselves."""
    order: list[int] = []

    def run(rows: int) -> None:
        order.append(rows)
        # Longer than the least sample, so that a sample is one run.
        end = perf_counter() + 0.003
        while perf_counter() < end:
            pass

    found = measure({rows: (lambda rows=rows: run(rows)) for rows in (1, 2, 4)}, rounds=3)
    assert order[6:] == [1, 2, 4, 4, 2, 1, 1, 2, 4]  # after a first run and one to count repeats, of each
    assert all(ms >= 3 for ms in found.values())


def test_help_lists_the_commands() -> None:
    argv = [sys.executable, "-m", "online.inference", "--help"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "serve" in done.stdout
    assert "profile" in done.stdout
