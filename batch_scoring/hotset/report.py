"""What a run says, as a document of plain values."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from batch_scoring.hotset.backtest import Backtest
from batch_scoring.hotset.choosing import Choice
from batch_scoring.hotset.columns import Columns
from batch_scoring.hotset.fit import Fit
from batch_scoring.hotset.measures import totals
from batch_scoring.hotset.plan import Plan
from batch_scoring.hotset.saving import Saving
from batch_scoring.hotset.trace import Windows
from schemas.arrow import HOT_SET


@dataclass(frozen=True)
class Facts:
    """Of the log. `aside`: rows set aside by reason; `sample_share`: of the entities, how many were simulated."""

    rows: int
    requests: int
    aside: dict[str, int]
    known: int
    columns: Columns
    sample_share: float

    def said(self) -> dict[str, object]:
        return {
            "rows": self.rows,
            "requests": self.requests,
            "rows_set_aside": self.aside,
            "known_entities": self.known,
            "entity_column": self.columns.entity,
            "time_column": self.columns.time,
            "order_column": self.columns.order,
            "guessed": self.columns.said,
            "sample_share": self.sample_share,
        }


@dataclass(frozen=True)
class Document:
    """`said` is report.json; `chosen` are the entities, where any were to be chosen."""

    said: dict[str, object]
    chosen: pa.Table | None = None

    def write_chosen(self, path: Path) -> None:
        pq.write_table(self.chosen, path)


def backtest_document(found: Backtest, plan: Plan, windows: Windows, facts: Facts) -> Document:
    choice = found.hit_rates["choice"]
    return Document(
        {
            "command": "backtest",
            "log": facts.said(),
            "slots": round(plan.slots / plan.sample_share),
            "refresh_s": windows.refresh_s,
            "declined": found.reason_declined is not None,
            "reason_declined": found.reason_declined,
            **found.hit_rates,
            "standard_error": found.standard_error,
            "best_split": found.best_split,
            "eviction": found.eviction.said,
            **asdict(totals(found.windows)),
            "regret_static": found.hit_rates["static_oracle"] - choice,
            "regret_belady": found.hit_rates["belady"] - choice,
            "expected_requests": sum(window.expected_requests for window in found.windows),
            "realised_requests": sum(window.realised_requests for window in found.windows),
            "gain_ms": found.gain_ms,
            "net_ms": found.net_ms,
            "coverage": found.coverage,
            "windows": [_window(asdict(window)) for window in found.windows],
        }
    )


def _window(one: dict[str, object]) -> dict[str, object]:
    begin_s = one["begin_s"]
    assert isinstance(begin_s, float)
    is_date = 0 < begin_s < 4e9
    return {**one, "begin": datetime.fromtimestamp(begin_s, UTC).isoformat() if is_date else None}


def choice_document(found: Choice, fitted: Fit, facts: Facts, refresh_s: float, saves: Saving) -> Document:
    entities = [] if found.declined else found.entities
    expected = found.expected[: len(entities)]
    said: dict[str, object] = {
        "command": "choose",
        "log": facts.said(),
        "declined": found.declined is not None,
        "reason_declined": found.declined,
        "slots": found.slots,
        "fixed_slots": found.fixed_slots,
        "split": fitted.share,
        "eviction": fitted.eviction.said if fitted.eviction else None,
        "half_life_s": fitted.profile.half_life * refresh_s,
        "period_s": fitted.profile.period * refresh_s,
        "refresh_s": refresh_s,
        "chosen": len(entities),
        "chosen_share": len(entities) / facts.known,
        "bytes": found.bytes if entities else 0,
        "expected_requests": float(expected.sum()),
        "expected_share": found.expected_share if entities else 0.0,
        "expected_net_ms": found.net_ms,
        "gain_share_on_the_past": fitted.gain_share,
        "next_step": {"entities": found.next_step[0], "expected_requests": found.next_step[1]},
        "replicas_saved": saves.replicas,
        "money_saved_a_day": saves.money_a_day,
        "coverage": found.curve,
    }
    return Document(said, pa.table({"entity": entities, "weight": expected}, schema=HOT_SET))
