"""A night of a model that takes text: what it stores is what bare torch gives for each text by itself."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.support.bundles import MeanPooled, text_bundle
from tests.support.night import SmallNight
from tests.support.texts import words
from tests.text.conftest import Bare, bare

pytestmark = [pytest.mark.spark, pytest.mark.long]

QUERY = """
SELECT s.entity, d.as_of, s.text, s.number FROM days d JOIN flights s ON s.known_at < d.as_of
"""
# 3 tokens, none but the special ones, over the limit, and 63 that are long.
TEXTS = {
    "three": "w1",
    "empty": "",
    "over": words(700),
    "nul": "w1\x00w2 w3",
    "emoji": "\U0001f6eb w4 e\u0301",
    **{f"L{place}": words(480 + place, place) for place in range(63)},
}


def prepared(night: SmallNight, texts: dict[str, str | None]) -> Bare:
    night.model = "text"
    bundle = text_bundle(night.folder / "bundles" / night.version, night.version)
    numbers = [float(place) for place in range(len(texts))]
    night.write_tables(list(texts), query=QUERY, text=list(texts.values()), number=numbers)
    night.write_log(dict.fromkeys(texts, 1))
    return bare(bundle, lambda found: MeanPooled(found.get_vocab_size(), 0))


@pytest.mark.parametrize("order", ["given", "shuffled"])
def test_a_night_of_text_stores_what_bare_torch_gives(
    night: SmallNight, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    monkeypatch.setenv("BATCH_HOT_FRACTION", "1.0")
    names = list(TEXTS)
    if order == "shuffled":
        np.random.default_rng(7).shuffle(names)
    model = prepared(night, {name: TEXTS[name] for name in names})
    begun = night.begin()
    night.run_all(begun, until="publish")
    stored = night.stored(begun)
    assert set(stored) == set(TEXTS)
    for place, name in enumerate(names):
        expected = model(TEXTS[name], float(place))
        np.testing.assert_allclose(stored[name].outputs, expected, rtol=1e-4, atol=1e-4, err_msg=name)


def test_an_entity_without_its_text_is_rejected_with_the_reason(
    night: SmallNight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCH_HOT_FRACTION", "1.0")
    monkeypatch.setenv("BATCH_MAX_REJECT_SHARE", "0.5")
    prepared(night, {"good": "w1", "none": None, "fine": "w2 w3"})
    begun = night.begin()
    night.run_all(begun, until="publish")
    assert set(night.stored(begun)) == {"good", "fine"}
    (reject,) = pq.read_table(Path(str(begun["run"])).parent / "rejects").to_pylist()
    assert (reject["entity"], reject["detail"]) == ("none", "text required, and missing")
