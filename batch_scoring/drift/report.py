"""`python -m batch_scoring.drift.report`: prints the report of a window that was watched, for who sends alarms.

Starts no Spark. Exit status 2: there is no such report; 1: it cannot be read now.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from batch_scoring.drift.window import window_of
from batch_scoring.job import configure_logs, guarded
from batch_scoring.runs import Refused
from batch_scoring.settings import BatchSettings
from schemas.drift import read_report
from schemas.names import check_name
from schemas.settings import load_settings


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m batch_scoring.drift.report", description=__doc__)
    parser.add_argument("--model", required=True, help="whose report")
    parser.add_argument("--from", dest="begin", help="as for batch_scoring.drift")
    parser.add_argument("--to", dest="end", help="as for batch_scoring.drift")
    given = parser.parse_args(argv)
    configure_logs()

    def once() -> int:
        try:
            check_name(given.model, "model")
        except ValueError as error:
            raise Refused(str(error)) from None
        window = window_of(given.begin, given.end, datetime.now(UTC))
        report = read_report(load_settings(BatchSettings).data_url, given.model, window)
        if report is None:
            raise Refused(f"{given.model} was not watched from {window[0].isoformat()} to {window[1].isoformat()}")
        sys.stdout.write(json.dumps(report.model_dump(mode="json"), sort_keys=True) + "\n")
        return 0

    return guarded(once)


if __name__ == "__main__":
    raise SystemExit(main())
