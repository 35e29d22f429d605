"""Panels and dashboards as Grafana's JSON, from short descriptions. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3
_SOURCE = {"type": "prometheus", "uid": "${source}"}
MODEL = 'model=~"$model"'


class Panel(NamedTuple):
    """`queries`: (PromQL, legend). `unit` is Grafana's name of it; `text` says how the number comes about."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    text: str = ""
    is_stacked: bool = False


class Board(NamedTuple):
    """One dashboard; `uid` is its address."""

    uid: str
    title: str
    panels: Sequence[Panel]


def dashboard(board: Board) -> dict[str, object]:
    """The document that Grafana's provisioning reads."""
    return {
        "uid": board.uid,
        "title": board.title,
        "tags": ["hotset"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "utc",
        "templating": {"list": [_data_source(), _models()]},
        "panels": [_panel(panel, place) for place, panel in enumerate(board.panels)],
    }


def _panel(panel: Panel, place: int) -> dict[str, object]:
    row, column = divmod(place, _COLUMNS)
    custom: dict[str, object] = {"fillOpacity": 10, "lineWidth": 1, "showPoints": "never"}
    if panel.is_stacked:
        custom |= {"stacking": {"mode": "normal", "group": "A"}, "fillOpacity": 40}
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "options": {"tooltip": {"mode": "multi", "sort": "desc"}, "legend": {"displayMode": "list"}},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for number, (query, legend) in enumerate(panel.queries)
        ],
    }


def _data_source() -> dict[str, object]:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _models() -> dict[str, object]:
    query = "label_values(hotset_generation_rows, model)"
    return {
        "name": "model",
        "label": "Model",
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": "models"},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
