"""What the nights of a model left on disk: for each generation its run, the reports of its steps, and refusals.

Read by the releases command and by the site; written by `batch_scoring.runs`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import orjson
from fsspec.implementations.local import LocalFileSystem
from pydantic import AwareDatetime, BaseModel, ConfigDict, PositiveInt, ValidationError

from schemas.names import RUNS, is_name, parse_generation, runs_path

# The steps whose reports say something of a release, in the order they run in.
REPORTED = ("score", "publish", "verify", "gate", "activate", "deleted")
REFUSABLE = ("features", "select", "score", "load", "publish", "verify", "gate", "activate")
MAX_RUNS = 30


class _Run(BaseModel):
    model_config = ConfigDict(extra="ignore")

    version: str
    generation: str
    started_at_ms: PositiveInt
    as_of: AwareDatetime


class Refusal(BaseModel):
    """`refused-STEP.json`: why the step's last attempt was refused. A later success removes it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    reason: str
    refused_at: str


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run as it lies on disk; a file that cannot be read counts as absent."""

    version: str
    generation: str
    computed_at_ms: int
    reports: Mapping[str, Mapping[str, Any]]
    refusals: Mapping[str, Refusal]


@dataclass(frozen=True, slots=True)
class RunFolders:
    """The runs by generation. `left_out`: folders older than the newest `MAX_RUNS` that nobody named."""

    runs: Mapping[str, RunFacts]
    left_out: int = 0


def refusal_file(step: str) -> str:
    return f"refused-{step}.json"


def report_file(step: str) -> str:
    return f"report-{step}.json"


def models_with_runs(data_url: str) -> list[str]:
    """Names of the models that have begun a night. Raises OSError where the data root cannot be listed."""
    filesystem, root = fsspec.core.url_to_fs(data_url)
    names = (name.removeprefix("model=") for name in _names(filesystem, f"{root.rstrip('/')}/{RUNS}"))
    return sorted(name for name in names if is_name(name))


def read_runs(data_url: str, model: str, named: Iterable[str] = ()) -> RunFolders:
    """The newest `MAX_RUNS` runs and those named. Raises OSError where the data root cannot be read."""
    filesystem, root = fsspec.core.url_to_fs(data_url)
    folder = f"{root.rstrip('/')}/{runs_path(model)}"
    names = sorted(filter(_is_generation, _names(filesystem, folder)), key=parse_generation, reverse=True)
    chosen = [*names[:MAX_RUNS], *(name for name in names[MAX_RUNS:] if name in set(named))]
    files = ["run.json", *map(report_file, REPORTED), *map(refusal_file, REFUSABLE)]
    found = _contents(filesystem, [f"{folder}/{name}/{file}" for name in chosen for file in files])
    runs = (_facts({file: found.get(f"{folder}/{name}/{file}") for file in files}) for name in chosen)
    return RunFolders({run.generation: run for run in runs if run}, len(names) - len(chosen))


def read_in_runs(data_url: str, model: str, file: str) -> dict[str, bytes]:
    """A file of the newest `MAX_RUNS` runs, by generation, newest first, where it is there. Raises OSError."""
    filesystem, root = fsspec.core.url_to_fs(data_url)
    folder = f"{root.rstrip('/')}/{runs_path(model)}"
    names = sorted(filter(_is_generation, _names(filesystem, folder)), key=parse_generation, reverse=True)
    names = names[:MAX_RUNS]
    found = _contents(filesystem, [f"{folder}/{name}/{file}" for name in names])
    return {name: raw for name in names if (raw := found.get(f"{folder}/{name}/{file}")) is not None}


def _names(filesystem: Any, folder: str) -> list[str]:
    filesystem.invalidate_cache(folder)
    try:
        return [path.rstrip("/").rpartition("/")[2] for path in filesystem.ls(folder, detail=False)]
    except FileNotFoundError:
        return []


def _is_generation(name: str) -> bool:
    try:
        parse_generation(name)
    except ValueError:
        return False
    return True


def _contents(filesystem: Any, paths: list[str]) -> dict[str, bytes]:
    """Of the files that exist; of an object store all at once."""
    if not isinstance(filesystem, LocalFileSystem):
        return dict(filesystem.cat(paths, on_error="omit")) if paths else {}
    return {path: Path(path).read_bytes() for path in paths if Path(path).is_file()}


def _facts(files: Mapping[str, bytes | None]) -> RunFacts | None:
    """None where the run itself cannot be read: cut short while it began."""
    try:
        run = _Run.model_validate_json(files["run.json"] or b"")
    except ValidationError:
        return None
    reports = {step: report for step in REPORTED if (report := _report(files[report_file(step)])) is not None}
    refusals = {step: one for step in REFUSABLE if (one := _refusal(files[refusal_file(step)])) is not None}
    return RunFacts(run.version, run.generation, run.started_at_ms, reports, refusals)


def _report(raw: bytes | None) -> dict[str, Any] | None:
    try:
        found = orjson.loads(raw or b"")
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _refusal(raw: bytes | None) -> Refusal | None:
    try:
        return Refusal.model_validate_json(raw or b"")
    except ValidationError:
        return None
