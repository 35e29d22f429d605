"""The fleet that a window's traffic needs, or what is missing to say. Pure."""

from dataclasses import dataclass

from online.monitor import fleet
from online.monitor.settings import MonitorSettings
from online.monitor.state import LiveState


@dataclass(frozen=True, slots=True)
class Sizing:
    """The estimate, or in `problem` what is missing for one.

    `replicas`: those of the stable version that have reported a T(b); `up` of them are what runs now.
    """

    estimate: fleet.FleetEstimate | None
    all_peak: fleet.PeakMinute | None
    tail_peak: fleet.PeakMinute | None
    up: int
    problem: str | None = None


def size(
    all_peak: fleet.PeakMinute | None,
    tail_peak: fleet.PeakMinute | None,
    state: LiveState,
    settings: MonitorSettings,
) -> Sizing:
    """Sized by the slowest replica of the stable version, so that the estimate holds for the others too.

    Args:
        all_peak, tail_peak: None where there are no such requests.
    """
    stable = state.routes.stable if state.routes else None
    replicas = [replica for replica in state.replicas if stable is None or replica.version == stable]
    chosen = fleet.slowest(replicas, settings.slo_ms)
    peaks = all_peak, tail_peak
    if chosen is None:
        return Sizing(None, *peaks, 0, problem=_no_replica(state, stable))
    if all_peak is None:
        return Sizing(None, *peaks, len(replicas), "No requests yet in this time range to size a fleet by.")
    tail = tail_peak or fleet.PeakMinute(all_peak.minute, 0)
    return Sizing(fleet.estimate(chosen, all_peak, tail, settings.slo_ms), *peaks, len(replicas))


def _no_replica(state: LiveState, stable: str | None) -> str:
    if state.now_ms is None:
        return f"{state.problem}: the replicas' T(b) is not known."
    of_version = f" for version {stable}" if stable is not None else ""
    bad = f" {state.unreadable} of {state.nodes} entries could not be read." if state.unreadable else ""
    return f"No replica has reported a T(b){of_version} yet.{bad}"
