"""What a night's choice is given beside the log: costs, lists, the budget, and how long answers are good for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import fsspec
import numpy as np

from batch_scoring.hotset.cost import CostModel
from batch_scoring.measured_profile import profile_of
from batch_scoring.publishing.sizes import fields_bytes
from batch_scoring.runs import Refused, Run
from batch_scoring.settings import BatchSettings
from schemas.bundle import fetch_bundle
from schemas.capacity import fit_batch_time, replica_rows_per_s
from schemas.codec import HEAD_BYTES
from schemas.manifest import Freshness, Manifest
from schemas.profile import ProfileDocument

USUAL_ID_BYTES = 16
_DEFAULTS = "defaults: BATCH_SCORE_PROFILE names no profile of this version"


@dataclass(frozen=True)
class Given:
    """
    Attributes:
        known: entities with features; only they can be precomputed.
        costs_from: in words, where the times of `model` are from.
        rows_per_s: what a replica may be given, by the profile; None without one.
        history: windows that the log is looked at for.
        write_back_after: misses of a key, as the API is told.
    """

    known: int
    model: CostModel
    costs_from: str
    rows_per_s: float | None
    freshness: Freshness
    mandatory: tuple[str, ...]
    blocked: tuple[str, ...]
    refresh_s: float
    history: int
    write_back_after: int

    @classmethod
    def of(cls, run: Run, settings: BatchSettings) -> Self:
        """Raises Refused where a file that the settings name cannot be read."""
        manifest = fetch_bundle(
            run.bundle_url, run.bundle_digest, Path(settings.cache_dir), settings.allowed_bundle_urls
        ).manifest
        profile = profile_of(settings, run.model, run.version)
        blocked = names_in(settings.block_url, "BATCH_BLOCK_URL")
        refresh_s = settings.refresh_hours * 3600
        return cls(
            run.count("features", "rows"),
            _model(manifest, profile),
            f"BATCH_SCORE_PROFILE: {profile.device_name or profile.device}" if profile else _DEFAULTS,
            _rows_per_s(manifest, profile, settings),
            manifest.freshness,
            tuple(name for name in names_in(settings.mandatory_url, "BATCH_MANDATORY_URL") if name not in blocked),
            tuple(blocked),
            refresh_s,
            max(1, round(settings.history_days * 86400 / refresh_s)),
            settings.write_back_after,
        )


def names_in(url: str, setting: str) -> dict[str, None]:
    """Lines of a text file, in order and each once; an empty `url` has none. Raises Refused."""
    if not url:
        return {}
    try:
        with fsspec.open(url, "rb") as file:
            text = file.read().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{setting}: {url} cannot be read: {error}") from None
    return dict.fromkeys(line for line in text.split("\n") if line)


def _model(manifest: Manifest, profile: ProfileDocument | None) -> CostModel:
    value_bytes = HEAD_BYTES + 4 * manifest.output.stored_width
    payload = fields_bytes(np.array([USUAL_ID_BYTES]), np.array([value_bytes])) - USUAL_ID_BYTES
    if profile is None:
        return CostModel(payload_bytes=payload)
    time = fit_batch_time(profile.rows, profile.batch_ms)
    most = min(profile.rows[-1], manifest.max_batch_rows)
    # A row that is asked for waits for its own batch; the night's share the largest.
    return CostModel(live_ms=time.batch_ms(1), batch_ms=time.batch_ms(most) / most, payload_bytes=payload)


def _rows_per_s(manifest: Manifest, profile: ProfileDocument | None, settings: BatchSettings) -> float | None:
    if profile is None:
        return None
    time = fit_batch_time(profile.rows, profile.batch_ms)
    return replica_rows_per_s(time, manifest.max_batch_rows, settings.slo_ms / 2)
