"""What is live for a model, for people and for machines."""

from datetime import UTC, datetime

import orjson
from redis import Redis
from rich.table import Table

from schemas.keys import history_key
from schemas.routes import RoutesDocument

_HISTORY_SHOWN = 10


def generations_table(document: RoutesDocument) -> Table:
    """One row a loaded generation, the live one first."""
    table = Table(title=f"{document.model}: stable version {document.stable}, revision {document.revision}")
    for name in ("version", "generation", "rows", "computed at", "live"):
        table.add_column(name, justify="right" if name == "rows" else "left")
    live = document.live_generation(document.stable)
    for version, found in document.versions.items():
        for generation in found.generations:
            at = datetime.fromtimestamp(generation.computed_at_ms / 1000, UTC).isoformat(timespec="seconds")
            is_live = version == document.stable and live is not None and generation.id == live.id
            table.add_row(version, generation.id, f"{generation.rows:,}", at, "yes" if is_live else "")
    return table


def history_table(redis: Redis, model: str) -> Table:
    table = Table(title="last changes")
    for name in ("at", "why", "version", "generation"):
        table.add_column(name)
    for raw in redis.lrange(history_key(model), 0, _HISTORY_SHOWN - 1):
        line = orjson.loads(raw)
        table.add_row(line["at"], line["why"], line["stable"], line["generation"] or "none")
    return table
