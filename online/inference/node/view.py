"""What the node says of its versions: in the directory, in Redis, in the bodies of its HTTP answers. Pure."""

from collections.abc import Sequence

from online.inference.node.version import Version
from schemas.capacity import fit_batch_time


def directory_entry(version: Version, device: str) -> dict[str, object]:
    """One of `versions` in a status frame of the directory. `address`: host:port, or the path of a Unix socket."""
    report = version.report
    return {
        "model": report.model,
        "version": report.version,
        "digest": version.bundle.digest,
        "state": version.state,
        "address": report.address,
        "reason": version.reason,
        "device": device,
        "tau0_ms": report.tau0_ms,
        "alpha_ms": report.alpha_ms,
        "max_batch_rows": report.max_batch_rows,
    }


def directory(name: str, draining: bool, versions: Sequence[Version], device: str) -> dict[str, object]:
    """The document of a status frame."""
    entries = [directory_entry(version, device) for version in versions]
    return {"node": name, "draining": draining, "versions": entries}


def readiness(draining: bool, versions: Sequence[Version]) -> tuple[bool, dict[str, object]]:
    """Whether at least one version is warm and its loop alive, and what is to be said of each."""
    is_ready = not draining and any(version.is_ready for version in versions)
    told = [
        {
            "model": version.report.model,
            "version": version.report.version,
            "digest": version.bundle.digest,
            "state": version.state,
            "reason": version.reason,
        }
        for version in versions
    ]
    reason = "draining" if draining else "" if versions else "no bundle is configured (INFERENCE_BUNDLES)"
    return is_ready, {"ready": is_ready, "reason": reason, "versions": told}


def profile(versions: Sequence[Version], device: str) -> dict[str, object]:
    """Measured T(b) of each version, and T(b) = tau0_ms + alpha_ms * rows fitted to it.

    Capacity is planned by it, for batches larger than today's traffic makes; the fit of now, in the directory and
    the metrics, is of the batches there are.
    """
    return {
        "device": device,
        "emulated": device.startswith("emulated:"),
        "versions": [_profile_entry(version) for version in versions if version.report.table],
    }


def _profile_entry(version: Version) -> dict[str, object]:
    rows, batch_ms = zip(*version.report.table, strict=True)
    fit = fit_batch_time(rows, batch_ms)
    return {
        "model": version.report.model,
        "version": version.report.version,
        "digest": version.bundle.digest,
        "tau0_ms": fit.tau0_ms,
        "alpha_ms": fit.alpha_ms,
        "max_batch_rows": version.report.max_batch_rows,
        "measured": [{"rows": rows, "batch_ms": ms} for rows, ms in version.report.table],
    }
