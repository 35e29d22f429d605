"""Reports of nights' choices of hot sets, as `select` leaves them in the run folders."""

from datetime import datetime, timedelta
from math import log1p
from pathlib import Path

from schemas.hotset_report import HotSetReport, Used
from schemas.names import HOTSET_REPORT_FILE, run_path

KNOWN = 12_075


def hotset_report(
    generation: str, as_of: datetime, *, used: Used = Used.CHOICE, expected_share: float = 0.7, windows: int = 8
) -> HotSetReport:
    """A plausible night; without windows it has no backtest."""
    day = timedelta(days=1)
    backtest = {
        "windows": [_window(as_of - place * day, place) for place in range(windows, 0, -1)],
        "sample_share": 1.0,
        "standard_error": 0.0,
        "hit_rates": {"choice": 0.66, "lru": 0.58, "lfu": 0.59, "wtinylfu": 0.61, "last_window": 0.52},
        "precomputed_hit_rate": 0.57,
        "never_read_share": 0.083,
        "unseen_share": 0.11,
        "churn": 0.062,
        "peak_minute_miss_rate": 0.47,
    }
    shares = [0.0, *(KNOWN ** (place / 64 - 1) for place in range(1, 65))]
    is_new = used is Used.CHOICE
    reason = "the choice is no worse than yesterday's set" if is_new else "the choice lost: 60.1 % to 63.0 %"
    return HotSetReport.model_validate({
        "model": "delay", "version": "7", "generation": generation, "as_of": as_of, "made_at": as_of,
        "refresh_s": 86_400, "known_entities": KNOWN, "asked_entities": 9_812,
        "log": {
            "begin": as_of - 28 * day, "first": as_of - 28 * day, "read": 250_000, "counted": 243_000,
            "not_answered": 6_800, "outside": 0, "set_aside": {"duplicated": 203}, "files": 672,
            "files_set_aside": {},
        },
        "budget": {
            "bytes": None, "slots": 603, "precomputed_slots": 543, "slot_bytes": 193, "resident_generations": 2,
            "max_fraction": 0.05,
        },
        "chosen": {
            "entities": 543, "share_of_known": 543 / KNOWN, "bytes": 66_000, "expected_requests": 4_610,
            "expected_share": expected_share, "mandatory": 3, "mandatory_unknown": 1,
            "mandatory_unknown_named": ["<b>007</b>"], "blocked": 2, "churn": 0.061,
        },
        "fit": {
            "is_fitted": True, "why_not": None, "half_life_days": 8, "season_days": 7, "written_back_share": 0.1,
            "eviction": "volatile-lfu, lfu-decay-time 60",
        },
        "coverage": [{"entities": one, "traffic": log1p(900 * one) / log1p(900)} for one in shares],
        "chosen_point": {"entities": 543 / KNOWN, "traffic": 0.52},
        "backtest": backtest if windows else None,
        "why_no_backtest": None if windows else "3 days of log: a backtest needs 4",
        "peak": {"at": as_of - day, "requests": 61, "missed": 27, "miss_share": 27 / 61},
        "yesterday": None,
        "next_step": {"entities": 54, "bytes": 6_588, "requests": 201.4, "share": 0.0231},
        "costs": {"live_ms": 3.2, "batch_ms": 0.041, "lookup_ms": 0.1, "stale_ms": 0, "source": "the profile"},
        "saving": {
            "live_ms": 14_752, "batch_ms": 22, "lookup_ms": 870, "net_ms": 13_860, "replicas": 1,
            "money_a_day": 9.6, "currency": "USD",
        },
        "gate": {
            "used": used, "reason": reason, "windows": 1, "choice_hit_rate": 0.66, "yesterday_hit_rate": 0.65,
            "noise": 0.01,
        },
    })  # fmt: skip


def write_report(root: Path, report: HotSetReport) -> Path:
    folder = root / run_path(report.model, report.generation)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / HOTSET_REPORT_FILE
    path.write_text(report.model_dump_json())
    return path


def _window(begin: datetime, place: int) -> dict[str, object]:
    rates = {"choice": 0.66 - 0.01 * (place % 3), "lru": 0.58, "lfu": 0.59, "wtinylfu": 0.61, "last_window": 0.52}
    return {
        "begin": begin, "end": begin + timedelta(days=1), "requests": 8_000 + place, "precomputed": 543,
        "hit_rates": rates | ({"yesterday": 0.64} if place == 1 else {}), "precomputed_hit_rate": 0.57,
        "expected_requests": 4_610, "realised_requests": 4_500, "never_read_share": 0.08, "unseen_share": 0.11,
        "churn": 0.06, "peak_minute_miss_rate": 0.46,
    }  # fmt: skip
