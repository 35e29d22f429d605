"""What else the pages read: four weeks of nights with their reports, of drift results and of compared hits."""

from datetime import datetime, timedelta
from pathlib import Path

import redis

from schemas.names import generation_name
from tests.bench.insight_log import DAYS
from tests.support.hotset_reports import hotset_report, write_report
from tests.support.runs_on_disk import record_change, write_run
from tests.support.watched import compared_row, sample, write_compared, write_drift

# Of each hour: a worker's stream becomes a file where it has a row, so that each holds a row or two.
COMPARED_FILES_PER_HOUR = 8


def write_nights(root: Path, client: redis.Redis, model: str, end: datetime) -> None:
    """A night, an activation and a window of drift each day, and some compared hits each hour."""
    midnight = end.replace(hour=0, minute=0, second=0, microsecond=0)
    for back in range(DAYS - 1, -1, -1):
        day = midnight - timedelta(days=back)
        began = day + timedelta(hours=2) if back else day - timedelta(minutes=1)
        name = generation_name(began, 1)
        write_run(root, model, name, began, score=2400, publish=3000, verify=3600, gate=3601, activate=3602)
        write_report(root, hotset_report(name, began).model_copy(update={"model": model}))
        record_change(client, model, began + timedelta(hours=1), "7", name, f"activate {name}", DAYS - back)
        write_drift(root, model, day, {"hits": sample(500, back), "tail": sample(2_000, back + 100)})
    hour = end.replace(minute=0, second=0, microsecond=0)
    for back in range(DAYS * 24):
        for number in range(COMPARED_FILES_PER_HOUR):
            moment = hour - timedelta(hours=back, minutes=-number)
            write_compared(root, model, [compared_row(moment, number)], f"part-{number}")
