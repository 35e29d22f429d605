"""What the nights of a model left on disk: for each generation its run, the reports of its steps, and refusals.

Read by the releases command and by the site; written by `batch_scoring.runs`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import fsspec
import orjson
from fsspec.implementations.local import LocalFileSystem
from pydantic import AwareDatetime, BaseModel, ConfigDict, PositiveInt, ValidationError

from schemas.kept_files import KeptFiles, Parsed
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
    folders = _names(filesystem, f"{root.rstrip('/')}/{RUNS}", KeptFiles())
    names = (name.removeprefix("model=") for name in folders)
    return sorted(name for name in names if is_name(name))


def read_runs(data_url: str, model: str, named: Iterable[str] = (), kept: KeptFiles | None = None) -> RunFolders:
    """The newest `MAX_RUNS` runs and those named. Raises OSError where the data root cannot be read.

    Args:
        kept: for readers that come again: what has not changed is not read again.
    """
    kept = kept or KeptFiles()
    filesystem, root = fsspec.core.url_to_fs(data_url)
    folder = f"{root.rstrip('/')}/{runs_path(model)}"
    names = sorted(filter(_is_generation, _names(filesystem, folder, kept)), key=parse_generation, reverse=True)
    chosen = [*names[:MAX_RUNS], *(name for name in names[MAX_RUNS:] if name in set(named))]
    files = ["run.json", *map(report_file, REPORTED), *map(refusal_file, REFUSABLE)]
    found = _contents(filesystem, [f"{folder}/{name}" for name in chosen], files, bytes, kept)
    runs = (_facts({file: found.get(f"{folder}/{name}/{file}") for file in files}) for name in chosen)
    return RunFolders({run.generation: run for run in runs if run}, len(names) - len(chosen))


def read_in_runs(
    data_url: str, model: str, file: str, parse: Callable[[bytes], Parsed], kept: KeptFiles | None = None
) -> dict[str, Parsed]:
    """A file of the newest `MAX_RUNS` runs, by generation, newest first, where it is there. Raises OSError.

    Args:
        parse: makes something of a file's bytes, and raises nothing.
        kept: as of `read_runs`.
    """
    kept = kept or KeptFiles()
    filesystem, root = fsspec.core.url_to_fs(data_url)
    folder = f"{root.rstrip('/')}/{runs_path(model)}"
    names = sorted(filter(_is_generation, _names(filesystem, folder, kept)), key=parse_generation, reverse=True)
    names = names[:MAX_RUNS]
    found = _contents(filesystem, [f"{folder}/{name}" for name in names], [file], parse, kept)
    return {name: found[path] for name in names if (path := f"{folder}/{name}/{file}") in found}


def _names(filesystem: Any, folder: str, kept: KeptFiles) -> list[str]:
    return [path.rpartition("/")[2] for path in kept.list(filesystem, folder)]


def _is_generation(name: str) -> bool:
    try:
        parse_generation(name)
    except ValueError:
        return False
    return True


def _contents(
    filesystem: Any, folders: list[str], files: list[str], parse: Callable[[bytes], Parsed], kept: KeptFiles
) -> dict[str, Parsed]:
    """Of these files of each folder, those that exist; of an object store all at once."""
    wanted = [f"{folder}/{file}" for folder in folders for file in files]
    if not isinstance(filesystem, LocalFileSystem):
        read = filesystem.cat(wanted, on_error="omit") if wanted else {}
        return {path: parse(raw) for path, raw in read.items()}
    there = {path for folder in folders for path in kept.list(filesystem, folder)}
    found = {}
    for path in wanted:
        if path in there:
            try:
                found[path] = kept.read(filesystem, path, parse)
            except (FileNotFoundError, IsADirectoryError):
                continue
    return found


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
