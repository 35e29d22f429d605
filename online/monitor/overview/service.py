"""The Overview's generation in service, with the words that say how it was found. Pure."""

from dataclasses import dataclass

from online.monitor import text
from online.monitor.state import LiveState
from online.monitor.tables import Cell, Column, Table
from online.monitor.windows import utc
from schemas.routes import Generation

_FIGURE = (Column("figure", "Figure"), Column("value", "Value"), Column("how", "How it was computed"))


@dataclass(frozen=True, slots=True)
class InService:
    """What answers now. `problem` says in words why something is absent."""

    version: str | None = None
    generation: Generation | None = None
    age_s: float | None = None
    problem: str | None = None


def in_service(state: LiveState) -> InService:
    if state.problem is not None:
        return InService(problem=f"{state.problem}.")
    if state.routes is None or state.now_ms is None:
        return InService(problem="Nothing is routed yet: no night has been activated for this model.")
    generation = state.routes.live_generation(state.routes.stable)
    if generation is None:
        return InService(
            state.routes.stable, problem="The stable version has no generation: all is answered live."
        )
    age_s = (state.now_ms - generation.computed_at_ms) / 1e3
    return InService(state.routes.stable, generation, age_s)


def generation_table(found: InService, state: LiveState) -> Table:
    rows: list[list[Cell]] = []
    if state.routes is not None:
        source = f"routes document, epoch {state.routes.epoch}, revision {state.routes.revision}"
        rows.append(["Stable version", found.version, source])
        rows.append(["Changed", _moment(state.routes.changed_at_ms), "when the routes document was last written"])
    if found.generation is not None:
        generation = found.generation
        rows += [
            ["Generation", generation.id, "the newest of the stable version"],
            [
                "Rows",
                text.count(generation.rows),
                f"entities in Redis, in {text.count(generation.buckets)} buckets",
            ],
            ["Computed", _moment(generation.computed_at_ms), "Redis's clock at the start of the run"],
            ["Age", text.age(found.age_s), "Redis's clock now, less that"],
        ]
    empty = found.problem or ""
    return Table("generation", "Generation in service", _FIGURE, rows, empty, "Read from Redis.")


def _moment(at_ms: int) -> str:
    return f"{text.moment(utc(at_ms // 1000))} UTC"
