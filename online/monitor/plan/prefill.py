"""What the Plan page's fields begin with: from the replicas or a profile, from the log, and from the settings."""

import logging
from dataclasses import dataclass

import fsspec
from pydantic import ValidationError

from online.monitor import fleet, text
from online.monitor.overview.figures import Figures, read_figures, read_hot_missed_peak
from online.monitor.plan.fields import EXAMPLES, Given
from online.monitor.requestlog.sql import TOTAL
from online.monitor.settings import MonitorSettings
from online.monitor.sources import Sources
from online.monitor.state import LiveState
from online.monitor.windows import Window, utc
from online.planning.checks import OutOfRange
from online.planning.profile_file import Profile, profile_of
from schemas.http import Source
from schemas.names import STAGES
from schemas.profile import ProfileDocument

logger = logging.getLogger(__name__)
# A folder of the data root for what `python -m online.inference profile` writes.
PROFILES = "profiles"
_IN_DEVICE = ("queue", "batch", "execute")
# More digits than anybody would type are noise in a field.
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Prefill:
    """By field; `problems` say in words what could not be read; `profile`: what T(b) is from, where it is one."""

    given: dict[str, Given]
    problems: list[str]
    profile: "Profiled | None" = None


@dataclass(frozen=True, slots=True)
class Profiled:
    """A profile, and where it lies: on this machine a path."""

    profile: Profile
    path: str

    @property
    def given(self) -> dict[str, Given]:
        """Raises OutOfRange."""
        one, found = self.profile, self.profile.fit
        source = (
            f"fitted to the profile {self.path.rpartition('/')[2]}, version {one.version} on "
            f"{one.device or 'its device'}"
        )
        given = _device(found.time.tau0_ms, found.time.alpha_ms, one.rows[-1], source)
        for name, line in (("tau0_ms", found.tau0_ms), ("alpha_ms", found.alpha_ms)):
            given[name] = Given(given[name].value, f"{source}; ± {line.half_width:.2g} (95 %)")
        return given


def prefill(sources: Sources, model: str, window: Window) -> Prefill:
    """Never raises for Redis, the log or a profile: what cannot be read is told in words."""
    state = sources.state.read(model)
    with sources.logs[model].reading(window.start_s, window.end_s, window.now_s) as (counts, coverage, _):
        figures = read_figures(counts, window)
        hot_missed = read_hot_missed_peak(counts, window)
    settings = sources.settings
    measured = _of_replica(state, settings.slo_ms)
    profiled = None if measured else _of_profile(settings.data_url, model)
    given = {
        **EXAMPLES,
        **_of_settings(settings),
        **(profiled.given if profiled else measured),
        **_of_log(figures, hot_missed, window),
    }
    problems = [f"{one}." for one in (state.problem, coverage.problem) if one]
    return Prefill(given, [f"{one[0].upper()}{one[1:]}" for one in problems], profiled)


def _of_settings(settings: MonitorSettings) -> dict[str, Given]:
    found = {"p99_ms": Given(settings.slo_ms, "the site's MONITOR_SLO_MS")}
    if settings.price_per_replica_hour is not None:
        found["price_per_hour"] = Given(settings.price_per_replica_hour, "MONITOR_PRICE_PER_REPLICA_HOUR")
    return found


def _of_replica(state: LiveState, slo_ms: float) -> dict[str, Given]:
    stable = state.routes.stable if state.routes else None
    replicas = [one for one in state.replicas if stable is None or one.version == stable]
    chosen = fleet.slowest(replicas, slo_ms)
    if chosen is None:
        return {}
    how = "emulated" if chosen.is_emulated else "measured"
    source = f"{how} by node {chosen.node}, version {chosen.version}; the slowest of {len(replicas)}"
    return _device(chosen.time.tau0_ms, chosen.time.alpha_ms, chosen.max_batch_rows, source)


def _of_profile(data_url: str, model: str) -> Profiled | None:
    """The newest by name of `profiles/*.json` that is of the model; one that cannot be used is passed over."""
    filesystem, root = fsspec.core.url_to_fs(data_url)
    folder = f"{root.rstrip('/')}/{PROFILES}"
    try:
        filesystem.invalidate_cache(folder)
        paths = [path for path in filesystem.ls(folder, detail=False) if path.endswith(".json")]
    except OSError:
        return None
    for path in sorted(paths, reverse=True):
        try:
            document = ProfileDocument.model_validate_json(filesystem.cat_file(path))
            if document.model == model and profile_of(document).fit:  # raises where it has too few sizes
                url = str(filesystem.unstrip_protocol(path))
                return Profiled(profile_of(document), url.removeprefix("file://"))
        except (OSError, ValidationError, OutOfRange) as error:
            logger.warning("a profile cannot be used", extra={"path": path, "error": type(error).__name__})
    return None


def _device(tau0_ms: float, alpha_ms: float, max_batch_rows: int, source: str) -> dict[str, Given]:
    return {
        "tau0_ms": Given(_rounded(tau0_ms), source),
        "alpha_ms": Given(_rounded(alpha_ms), source),
        "max_batch_rows": Given(max_batch_rows, source),
    }


def _of_log(figures: Figures, hot_missed: fleet.PeakMinute | None, window: Window) -> dict[str, Given]:
    peak = figures.all_peak
    if peak is None:
        return {}
    at = f"the log's busiest minute, {text.moment(utc(peak.minute * 60))} UTC"
    missed = hot_missed.requests if hot_missed else 0
    tail = figures.tail_peak.requests if figures.tail_peak else 0
    found = {
        "peak_per_s": Given(_rounded(peak.per_s), at),
        "hit_share": Given(_rounded(1 - missed / peak.requests), "the log's busiest minutes"),
        "cache_share": Given(_rounded(1 - tail / missed) if missed else 0.0, "the log's busiest minutes"),
        "mean_share": Given(_mean_share(figures, peak, window), "this time range since its first request"),
    }
    hit = figures.latencies.get(("hit", TOTAL))
    if hit is not None:
        found["hit_ms"] = Given(_rounded(hit.p50_ms), "p50 of the log's hits")
    outside = [
        one.p50_ms
        for stage in STAGES
        if stage not in _IN_DEVICE and (one := figures.latencies.get((Source.LIVE.value, stage)))
    ]
    if outside:
        found["outside_ms"] = Given(_rounded(sum(outside)), "medians of the log's other stages, added up")
    return found


def _mean_share(figures: Figures, peak: fleet.PeakMinute, window: Window) -> float | None:
    """Requests since the first step that has any, over those of so many busiest minutes."""
    first = next(step for step in range(window.steps) if any(one[step] for one in figures.steps.values()))
    minutes = (window.now_s - window.step_start(first).timestamp()) / 60
    return min(1.0, _rounded(figures.requests() / minutes / peak.requests)) if minutes > 0 else None


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
