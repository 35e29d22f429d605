"""Files that are read again and again are parsed when they have changed, and never else."""

import os
import time
from pathlib import Path

import fsspec
import pytest

from schemas import kept_files
from schemas.kept_files import KeptFiles

LOCAL = fsspec.filesystem("file")


def age(folder: Path) -> None:
    """As if nothing had happened in the folder for a while."""
    os.utime(folder, ns=(time.time_ns(), time.time_ns() - 5_000_000_000))


def test_a_file_is_parsed_once_until_it_changes(tmp_path: Path) -> None:
    path, seen = tmp_path / "a.json", []

    def parse(raw: bytes) -> int:
        seen.append(raw)
        return int(raw)

    kept = KeptFiles()
    path.write_bytes(b"1")
    assert [kept.read(LOCAL, str(path), parse) for _ in range(3)] == [1, 1, 1]
    path.write_bytes(b"22")
    assert kept.read(LOCAL, str(path), parse) == 22
    replaced = tmp_path / "b"
    replaced.write_bytes(b"33")
    os.utime(replaced, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    replaced.replace(path)  # same size and time: another file all the same
    assert kept.read(LOCAL, str(path), parse) == 33
    assert seen == [b"1", b"22", b"33"]
    assert kept.read(LOCAL, str(path), len) == 2  # another parser's is its own


def test_what_cannot_be_parsed_is_tried_again_and_what_is_gone_is_said(tmp_path: Path) -> None:
    kept, path = KeptFiles(), tmp_path / "a"
    path.write_bytes(b"x")
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid"):
            kept.read(LOCAL, str(path), int)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        kept.read(LOCAL, str(path), int)


def test_a_folder_is_listed_again_when_it_got_or_lost_something(tmp_path: Path) -> None:
    kept, folder = KeptFiles(), tmp_path / "runs"
    assert kept.list(LOCAL, str(folder)) == []
    folder.mkdir()
    for name in ("a", "b"):
        (folder / name).touch()
        assert f"{folder}/{name}" in kept.list(LOCAL, str(folder))  # at once, however short ago the last was
    age(folder)
    first = kept.list(LOCAL, str(folder))
    assert kept.list(LOCAL, str(folder)) is first
    (folder / "a").unlink()
    assert kept.list(LOCAL, str(folder)) == [f"{folder}/b"]


def test_an_object_store_is_asked_each_time(tmp_path: Path) -> None:
    memory, kept = fsspec.filesystem("memory"), KeptFiles()
    try:
        for raw in (b"1", b"2"):
            memory.pipe("/kept/a", raw)
            assert kept.read(memory, "/kept/a", bytes) == raw
        assert kept.list(memory, "/kept") == ["/kept/a"]
        assert kept.list(memory, "/nowhere") == []
    finally:
        memory.rm("/kept", recursive=True)


def test_it_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_files, "MOST_FILES", 3)
    kept = KeptFiles()
    for number in range(9):
        (tmp_path / str(number)).write_text(str(number))
        assert kept.read(LOCAL, str(tmp_path / str(number)), int) == number
    assert len(kept._files) == 3
