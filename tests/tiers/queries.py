"""Every query of the dashboards and rules, and what is wrong with it beside what the services expose."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from infra.grafana.__main__ import FOLDER
from schemas.http import MissReason, ProblemCode, Source
from schemas.names import STAGES
from schemas.parity import Kind, Skip

RULES = Path(__file__).parents[2] / "infra" / "prometheus" / "hotset.rules.yml"
_SELECTOR = re.compile(r"\b((?:hotset[a-z0-9_:]*|up))(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'([a-z_]+)(=~|=|!~|!=)"([^"]*)"')
_BY = re.compile(r"\bby \(([^)]*)\)")
# What Prometheus adds when it scrapes.
_ADDED = {"instance", "job"}
# Values that appear when something has happened; of all others the services show every one from the start.
_WORDS: Mapping[str, set[str]] = {
    "source": {*Source, "error"},
    "reason": {*MissReason, *Skip},
    "code": set(ProblemCode),
    "stage": set(STAGES),
    "kind": set(Kind),
    "outcome": {"answered", "overloaded", "not_ready", "deadline_exceeded", "cancelled", "invalid", "failed"},
}


def dashboard_queries() -> list[str]:
    """For all models."""
    documents = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]
    panels = [panel for document in documents for panel in document["panels"]]
    return [target["expr"].replace("$model", ".*") for panel in panels for target in panel["targets"]]


def rules() -> list[Mapping[str, str]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def problems(query: str, labels_by_name: Mapping[str, set[str]], values: Mapping[str, set[str]]) -> Iterator[str]:
    """
    Args:
        labels_by_name: of each metric that there is, the recorded ones among them.
        values: that each label has been seen with.
    """
    used: set[str] = set(_ADDED)
    for name, matchers in _SELECTOR.findall(query):
        if name not in labels_by_name:
            yield f"{name} is not exposed"
            continue
        used |= labels_by_name[name]
        for label, how, value in _MATCHER.findall(matchers):
            if label not in labels_by_name[name] | _ADDED:
                yield f"{name} has no label {label}"
            elif label not in _ADDED:
                yield from _unknown(name, label, how, value, _WORDS.get(label, set()) | values.get(label, set()))
    for labels in _BY.findall(query):
        yield from (f"nothing has a label {one}" for one in re.split(r",\s*", labels) if one not in used)


def _unknown(name: str, label: str, how: str, value: str, known: set[str]) -> Iterator[str]:
    """Each alternative of a pattern has to match something that there can be."""
    wanted = value.split("|") if "~" in how else [value]
    for one in filter(None, wanted):
        if not any(re.fullmatch(one, seen) if "~" in how else one == seen for seen in known):
            yield f"{name} never has {label} {one}"
