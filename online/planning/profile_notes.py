"""What a plan that rests on a profile says of it: its line with intervals, and whether it is a line. Pure."""

from online.planning.batching import LINEAR_WITHIN
from online.planning.profile_file import Profile


def profile_notes(profile: Profile | None) -> list[str]:
    if profile is None:
        return []
    found = profile.fit
    notes = [
        f"{profile.model} {profile.version} on {profile.device or 'its device'}: "
        f"tau0 {found.tau0_ms.value:.4g} ± {found.tau0_ms.half_width:.2g} ms, "
        f"alpha {found.alpha_ms.value:.4g} ± {found.alpha_ms.half_width:.2g} ms (95 %); "
        f"the line is {found.worst_error:+.1%} off at {found.worst_rows} rows."
    ]
    if not found.is_linear:
        notes.append(
            f"Warning: the linear model does not fit (more than {LINEAR_WITHIN:.0%} off): figures are of the "
            "measured sizes, straight between them; textbook and bound are left out."
        )
    if profile.is_emulated:
        notes.append("The profile is of an emulated device: so are the figures.")
    if profile.overruns:
        notes.append(f"The emulated device overran {profile.overruns} times while it was measured.")
    return notes


def profile_document(profile: Profile | None) -> dict[str, object]:
    if profile is None:
        return {}
    found = profile.fit
    return {
        "tau0_half_width_ms": found.tau0_ms.half_width,
        "alpha_half_width_ms": found.alpha_ms.half_width,
        "max_relative_error": abs(found.worst_error),
        "max_relative_error_rows": found.worst_rows,
        "is_linear": found.is_linear,
    }
