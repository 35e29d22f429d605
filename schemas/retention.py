"""What retention says to readers of a model's request log: from when on the log, and figures made of it, are kept.

The file lies beside the log's days. Written by `batch_scoring.requestlog` before it deletes; read by the site,
which keeps the figures of a deleted log from `figures_from` on. Standard library only.
"""

import json
from dataclasses import dataclass
from datetime import date

RETENTION_FILE = "_retention.json"


@dataclass(frozen=True, slots=True)
class Retention:
    """The first days (UTC) of which the log, and of which figures, are kept."""

    log_from: date = date.min
    figures_from: date = date.min

    @classmethod
    def read(cls, document: bytes) -> "Retention":
        """Raises ValueError where it is none."""
        try:
            found = json.loads(document)
            return cls(date.fromisoformat(found["log_from"]), date.fromisoformat(found["figures_from"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"{RETENTION_FILE} does not say what is kept") from error

    def to_bytes(self) -> bytes:
        return json.dumps(
            {"log_from": self.log_from.isoformat(), "figures_from": self.figures_from.isoformat()}
        ).encode()


EVERYTHING = Retention()
