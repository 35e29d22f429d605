"""`python -m tests.requestlog.endless STATE_FOLDER DATA_URL`: a log that gets rows until it is killed.

Each row's request id is its number; the newest is printed now and then, after it was added.
"""

import sys
import time
from pathlib import Path

from online.api.requestlog.buffer import LogBuffer
from online.api.requestlog.writer import LogWriter
from schemas.arrow import REQUEST_LOG

_PAUSE_S, _EACH = 0.002, 10


def row(number: int) -> tuple[object, ...]:
    values: dict[str, object] = dict.fromkeys(REQUEST_LOG.names)
    values |= {"time": time.time_ns() // 1000, "request_id": str(number), "entity": "é", "status": 200}
    return tuple((values | {"total_us": 900, "is_caller_features": False}).values())


def main(folder: Path, data_url: str) -> None:
    buffer = LogBuffer(["m"], 1_000_000)
    # So short a rotation that files are being stored at any moment.
    with LogWriter(buffer, folder, data_url, 1.0, 1 << 30, 1 << 30, lambda columns, refused: None):
        number = 0
        while True:
            for _ in range(_EACH):
                buffer.add("m", row(number))
                number += 1
            sys.stdout.write(f"{number - 1}\n")
            sys.stdout.flush()
            time.sleep(_PAUSE_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
