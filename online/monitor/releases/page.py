"""Releases: every generation with its gates, who activated it, what is active and what a rollback would go to."""

import logging

from online.monitor.pages import Page, Report
from online.monitor.releases import tables as made
from online.monitor.sources import Sources
from online.monitor.state import LiveState
from online.monitor.windows import Window
from schemas.history import Change
from schemas.releases import Release, State, active_since, fallback_set, live_set, releases, rollback_set
from schemas.run_folders import MAX_RUNS, RunFolders, read_runs

logger = logging.getLogger(__name__)


def build(sources: Sources, model: str, window: Window) -> Report:
    """Never raises for Redis or for the data root: what cannot be read is told in words."""
    state = sources.state.read(model)
    changes, history_problem = ([], None) if state.now_ms is None else sources.state.history(model)
    folders, files_problem = _read_runs(sources, model, state)
    found = releases(state.routes, changes, folders, is_redis_known=state.problem is None)
    now_ms = state.now_ms or window.now_s * 1000
    problems = [f"{one}." for one in (_redis_problem(state), history_problem, files_problem) if one]
    facts = _facts(state, changes, found, now_ms, problems, folders.left_out)
    tables = [
        made.releases_table(found, now_ms, folders.left_out, MAX_RUNS),
        made.gates_table(found),
        made.history_table(changes),
    ]
    active = next((one for one in found if one.state is State.ACTIVE), None)
    view = {
        "active": active,
        "age_s": _age_s(active, now_ms),
        "since": active_since(state.routes, changes) if state.routes else None,
        "version": state.routes.stable if state.routes else None,
        "back": rollback_set(state.routes) if state.routes else None,
        "fallback": fallback_set(state.routes) if state.routes else None,
        "is_routed": state.routes is not None,
        "is_redis_known": state.problem is None,
        "problems": problems,
        "counts": {one: sum(release.state is one for release in found) for one in State},
        "found": found,
    }
    return Report(facts, tables, view)


def _read_runs(sources: Sources, model: str, state: LiveState) -> tuple[RunFolders, str | None]:
    named = {one.id for _, one in state.routes.generations} if state.routes else set()
    try:
        return read_runs(sources.settings.data_url, model, named, sources.files), None
    except OSError as error:
        logger.warning("the runs cannot be read", extra={"error": type(error).__name__})
        return RunFolders({}), f"The run folders cannot be read ({type(error).__name__}), so gates are not known"


def _redis_problem(state: LiveState) -> str | None:
    if state.problem is None:
        return None
    problem = f"{state.problem[0].upper()}{state.problem[1:]}"
    return f"{problem}, so what is active is not known; the generations below are those of the run folders"


def _age_s(release: Release | None, now_ms: int) -> float | None:
    return (now_ms - release.computed_at_ms) / 1e3 if release and release.computed_at_ms is not None else None


def _facts(
    state: LiveState,
    changes: list[Change],
    found: list[Release],
    now_ms: int,
    problems: list[str],
    left_out: int,
) -> dict[str, object]:
    live = live_set(state.routes) if state.routes else (None, None)
    back = (rollback_set(state.routes) if state.routes else None) or (None, None)
    fallback = (fallback_set(state.routes) if state.routes else None) or (None, None)
    since = active_since(state.routes, changes) if state.routes else None
    active = next((one for one in found if one.state is State.ACTIVE), None)
    return {
        "active_version": live[0],
        "active_generation": live[1],
        "active_age_s": _age_s(active, now_ms),
        "active_since": since.at.isoformat() if since else None,
        "activated_by": since.by if since else None,
        "activated_why": since.why if since else None,
        "rollback_version": back[0],
        "rollback_generation": back[1],
        "fallback_version": fallback[0],
        "fallback_generation": fallback[1],
        "older_runs_left_out": left_out,
        "problems": problems,
    }


PAGE = Page("releases", "Releases", "releases.html", build)
