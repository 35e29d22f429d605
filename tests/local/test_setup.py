"""Set-up: which Java fits, what the locks promise, and what is said where something is missing."""

import os
import re
import subprocess
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from infra.local.java import find_java_home, version_of
from infra.local.lock import LEFT_OUT, write_lock
from infra.local.settings import HOME

REQUIREMENTS = HOME / "infra" / "requirements"


def java_that_says(version: str, home: Path) -> Path:
    """A program that answers `java -version` as a Java of that version does."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    program.chmod(0o755)
    return home


@pytest.mark.parametrize(("said", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 1), ("25.0.1", 25)])
def test_the_version_of_a_java_is_read(said: str, version: int, tmp_path: Path) -> None:
    assert version_of(java_that_says(said, tmp_path / "java")) == version


def test_a_java_that_does_not_fit_is_passed_over(tmp_path: Path) -> None:
    old = java_that_says("11.0.2", tmp_path / "old")
    good = java_that_says("21.0.2", tmp_path / "good")
    assert find_java_home({"JAVA_HOME": str(old), "PATH": str(good / "bin")}) == good
    assert find_java_home({"JAVA_HOME": str(good), "PATH": str(old / "bin")}) == good


def test_no_java_is_no_error(tmp_path: Path) -> None:
    assert version_of(tmp_path / "nowhere") is None


def packages(lock: str) -> dict[str, str]:
    lines = (REQUIREMENTS / lock).read_text(encoding="utf-8").splitlines()
    pairs = [line.partition(";")[0].split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pair) == 2 for pair in pairs), "every line of a lock is NAME==VERSION"
    return {canonical(name): version for name, version in pairs}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_product_lock_holds_what_the_product_asks_for() -> None:
    locked = packages("product.lock")
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: asked for name, asked in project["optional-dependencies"].items() if name != "airflow"}
    asked = [*project["dependencies"], *(one for many in extras.values() for one in many)]
    names = {canonical(re.match(r"[A-Za-z0-9._-]+", one)[0]) for one in asked if not one.startswith("hotset[")}  # type: ignore[index]
    assert names - locked.keys() == set()
    assert locked["torch"] == "2.13.0"
    assert "pyspark-client" not in locked


def test_airflow_has_a_lock_of_its_own() -> None:
    locked = packages("airflow.lock")
    assert locked["apache-airflow"] == "3.3.2"
    assert {"pyspark", "pyspark-client", "torch"} & locked.keys() == set()


@pytest.mark.parametrize("name", ["product", "airflow"])
@pytest.mark.parametrize("python", ["3.11.0", "3.11.9", "3.12.0", "3.13.0"])
@pytest.mark.parametrize(("system", "machine"), [("Linux", "x86_64"), ("Darwin", "arm64")])
def test_a_lock_is_complete_on_every_python(name: str, python: str, system: str, machine: str) -> None:
    """pip installs it without resolving, so a package that only another Python needs would be missing there."""
    locked, folder = packages(f"{name}.lock"), {"product": ".venv", "airflow": ".venv-airflow"}[name]
    place = {
        "python_version": python.rpartition(".")[0],
        "python_full_version": python,
        "extra": "",
        "platform_system": system,
        "sys_platform": system.lower(),
        "platform_machine": machine,
    }
    asked = {
        (canonical(requirement.name), str(requirement.specifier))
        for installed in distributions(path=map(str, (HOME / folder / "lib").glob("python3.*/site-packages")))
        if canonical(installed.name) in locked
        for requirement in map(Requirement, installed.requires or ())
        if requirement.marker is None or requirement.marker.evaluate(place)
    }
    left_out = {canonical(package) for package in LEFT_OUT[name]}
    missing = {
        name for name, wanted in asked if not SpecifierSet(wanted).contains(locked.get(name, ""), prereleases=True)
    }
    assert missing - left_out == set()


def test_a_lock_leaves_local_versions_to_each_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.local.lock.REQUIREMENTS", tmp_path)
    written = write_lock("product", "torch==2.13.0+cpu\npip==23.2.1\nhotset==0.1.0\nclick==8.5.1\n-e somewhere\n")
    lines = written.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if "#" not in line and ";" not in line] == ["click==8.5.1", "torch==2.13.0"]


def test_a_python_that_is_not_there_is_named() -> None:
    env = {**os.environ, "PYTHON": "/nowhere/python3.11"}
    done = subprocess.run(["sh", HOME / "infra/local/setup.sh"], env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert "/nowhere/python3.11 is not one" in done.stderr
    assert "make setup PYTHON=" in done.stderr


def test_make_help_names_every_target() -> None:
    shown = subprocess.run(["make", "help"], cwd=HOME, capture_output=True, text=True, check=True).stdout
    makefile = (HOME / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE)
    assert [name for name in targets if not re.search(rf"^  {name} ", shown, re.MULTILINE)] == []
    assert {"setup", "demo", "up", "down", "airflow", "fmt", "lint", "type", "test-fast", "test"} <= set(targets)
