"""What the page of metrics promises beside what runs: each metric with its labels, and no series of callers."""

import re
from pathlib import Path

import httpx
import pytest

from tests.support.scraped import Scraped
from tests.tiers.conftest import Tiers

PAGE = Path(__file__).parents[2] / "infra" / "docs" / "metrics.md"
_STAGE = re.compile(r"[a-z0-9_]+;dur=[0-9]+(\.[0-9]+)?")
_ODD = ("nobody", "a'b", "x" * 256, "%00", "../up", "é", "a%20b", "1e5", "%F0%9F%92%A9")


def promised() -> dict[str, set[str]]:
    """Labels by full name, of the three tables."""
    found: dict[str, set[str]] = {}
    prefix = ""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and "metric" in cells[0]:
            prefix = "hotset_inference_" if "hotset_inference_" in cells[0] else ""
        elif len(cells) == 3 and cells[0].startswith("`"):
            names = re.findall(r"`([a-z0-9_]+)`", cells[0])
            several = [{one for one in re.split(r",\s*", part.strip()) if one} for part in cells[1].split(" / ")]
            # Labels of several metrics that differ are given one after the other, beginning with those they share.
            for number, name in enumerate(names):
                labels = several[min(number, len(several) - 1)]
                found[prefix + name] = labels
    return found


def test_every_metric_of_the_page_is_exposed_with_its_labels(asked: list[Scraped]) -> None:
    exposed: dict[str, set[str]] = {}
    families: dict[str, str] = {}
    for scraped in asked:
        for family in scraped.families:
            name = f"{family.name}_total" if family.type == "counter" else family.name
            families[name] = family.type
            for sample in family.samples:
                exposed.setdefault(name, set()).update(set(sample.labels) - {"le"})
    wanted = promised()
    assert len(wanted) > 25
    missing = {name for name in wanted if name not in families}
    assert missing == set()
    for name, labels in wanted.items():
        assert not exposed.get(name) or labels <= exposed[name], name
    assert {name for name in families if name.startswith("hotset")} - set(wanted) == set()


def test_whatever_callers_send_makes_no_new_series(tiers: Tiers, asked: list[Scraped]) -> None:
    """Not even of models that do not exist: a problem's code is our own word."""

    def ask(entity: str, model: str = "tiny") -> None:
        tiers.api.client.get(
            f"/v1/models/{model}/predictions/{entity}", headers={"X-Request-Id": ascii(entity)[:9]}
        )

    for entity in _ODD:
        ask(entity)
        ask("e1", model=entity)
    series = [scraped.series for scraped in tiers.scraped()]
    for number in range(60):
        ask(f"{_ODD[number % len(_ODD)]}{number}")
        ask("e1", model=f"m{number}")
        tiers.api.client.post(f"/v1/models/tiny/predict?x={number}", json={"features": {f"f{number}": number}})
    # The log folds once a second: what came of all this is there when the last request is counted.
    before = tiers.scraped()[0].total("hotset_answers_total")
    tiers.get("e1")
    tiers.wait_until_folded(before)
    after = [scraped.series for scraped in tiers.scraped()]
    new = {pair for one, other in zip(series, after, strict=True) for pair in other - one}
    assert {name for name, _ in new} <= {"hotset_problems_total", "hotset_problems_created"}
    assert len(new) < 8


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/models/tiny/predictions/e1", None, 200),
        ("GET", "/v1/models/tiny/predictions/e38", None, 200),
        ("GET", "/v1/models/tiny/predictions/nobody", None, 404),
        ("GET", "/v1/models/none/predictions/e1", None, 404),
        ("POST", "/v1/models/tiny/predictions:batch", {"items": ["e1", "e39", "nobody"]}, 200),
        ("POST", "/v1/models/tiny/predictions:batch", {"items": []}, None),
        ("POST", "/v1/models/tiny/predict", {"features": {"distance": "far"}}, None),
        ("POST", "/v1/models/tiny/predict", None, None),
    ],
)
def test_every_answer_says_where_its_time_went(
    tiers: Tiers, method: str, path: str, body: object, status: int | None
) -> None:
    answer: httpx.Response = tiers.api.client.request(method, path, json=body)
    assert answer.status_code == status if status else 400 <= answer.status_code < 500
    parts = answer.headers["Server-Timing"].split(", ")
    assert parts
    assert all(_STAGE.fullmatch(part) for part in parts), parts
