"""The dashboards beside Grafana's own model of one, as its foundation SDK has it from Grafana's schemas."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from infra.grafana.__main__ import FOLDER
from infra.grafana.boards import BOARDS

# Across, as Grafana's grid has it.
_GRID = 24
# Grafana shows a unit that it does not know as it is written.
_UNITS = {"short", "s", "ms", "reqps", "percentunit", "bytes"}


@pytest.fixture(scope="module", params=sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def dashboard(request: pytest.FixtureRequest) -> dict[str, Any]:
    path: Path = request.param
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def read_by_grafana(document: dict[str, Any]) -> dict[str, Any]:
    """The document as its model gives it back: without what the model does not know."""
    register_default_plugins()
    found: dict[str, Any] = json.loads(JSONEncoder().encode(Dashboard.from_json(document)))
    return found


def lost(given: Any, read: Any, place: str = "") -> Iterator[str]:
    """Where what was read lacks something that was given, or has it otherwise."""
    if isinstance(given, dict) and isinstance(read, dict):
        for key, value in given.items():
            yield from lost(value, read[key], f"{place}.{key}") if key in read else (f"{place}.{key}",)
    elif isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        for number, (one, other) in enumerate(zip(given, read, strict=True)):
            yield from lost(one, other, f"{place}[{number}]")
    elif given != read:
        yield place


def test_grafanas_model_knows_all_that_is_in_it(dashboard: dict[str, Any]) -> None:
    assert list(lost(dashboard, read_by_grafana(dashboard))) == []


def test_the_check_finds_what_grafana_would_ignore(dashboard: dict[str, Any]) -> None:
    dashboard = json.loads(json.dumps(dashboard))
    dashboard["panels"][0]["gridPosition"] = dashboard["panels"][0]["gridPos"]
    dashboard["panels"][0]["targets"][0]["expression"] = "up"
    dashboard["tiemzone"] = "utc"
    assert sorted(lost(dashboard, read_by_grafana(dashboard))) == [
        ".panels[0].gridPosition", ".panels[0].targets[0].expression", ".tiemzone",
    ]  # fmt: skip


def test_panels_are_told_apart_and_do_not_overlap(dashboard: dict[str, Any]) -> None:
    panels = dashboard["panels"]
    for key in ("id", "title"):
        assert len({panel[key] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert max(x for x, _ in cells) < _GRID
        assert not cells & taken
        taken |= cells
        assert panel["fieldConfig"]["defaults"]["unit"] in _UNITS
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        assert all(target["datasource"]["uid"] == "${source}" for target in panel["targets"])


def test_each_has_an_address_of_its_own() -> None:
    found = {json.loads(path.read_text())["uid"] for path in FOLDER.glob("*.json")}
    assert found == {board.uid for board in BOARDS}
    assert len(found) == len(BOARDS)
