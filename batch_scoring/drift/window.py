"""The window that is watched, from what a caller names."""

from datetime import UTC, datetime

from batch_scoring.runs import Refused
from schemas.drift import WEEK, Window


def window_of(begin: str | None, end: str | None, now: datetime) -> Window:
    """Dates or times, UTC where they have no zone; by default the seven days that ended last midnight (UTC).

    Raises:
        Refused: no time, or no window.
    """
    until = _moment(end) if end else now.replace(hour=0, minute=0, second=0, microsecond=0)
    since = _moment(begin) if begin else until - WEEK
    if since >= until:
        raise Refused(f"the window would begin at {since.isoformat()}, and end at {until.isoformat()}")
    return since, until


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Refused(f"{text!r} is neither a date nor a time, such as 2026-11-28 or 2026-11-28T06:00Z") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
