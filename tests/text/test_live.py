"""Text through both tiers: each row as bare torch gives it alone, whatever else is served at the moment."""

import asyncio
import time

import httpx
import pytest

from tests.support.texts import words
from tests.text.conftest import STORED, TextWorld, close

pytestmark = pytest.mark.long

LONG = [words(500 + place % 12, place) for place in range(63)]


def outputs_of(document: dict[str, object]) -> list[float]:
    """In the order in which the bundles name them."""
    found = document["outputs"]
    assert isinstance(found, dict), document
    return [found["late"], found["minutes"]]


@pytest.mark.parametrize("text", ["w3", "", words(700, 9), "no word that it knows", "w1\x00w2", "\U0001f6eb w4"])
def test_a_row_has_the_same_outputs_alone_and_in_any_company(text_world: TextWorld, text: str) -> None:
    bare = text_world.bare["text"]
    companies = [[], LONG, [""], [words(700, 5)], [words(2, place) for place in range(63)], [*LONG[:20], "", "w7"]]
    for round_, company in enumerate(companies):
        # A number of its own makes each row an execution of its own: nothing is answered from what was kept.
        numbers = [float(1000 * round_ + place + 100 * len(text)) for place in range(len(company) + 1)]
        texts = [*company, text]
        items = [
            {"entity": f"e{place}", "features": {"text": one, "number": number}}
            for place, (one, number) in enumerate(zip(texts, numbers, strict=True))
        ]
        results = text_world.batch("text", items)
        assert [result for result in results if result.get("source") != "live"] == []
        for result, one, number in zip(results, texts, numbers, strict=True):
            assert close(outputs_of(result), bare(one, number)), (round_, one[:40])


def test_text_is_cut_where_the_library_cuts_it(text_world: TextWorld) -> None:
    bare = text_world.bare["other"]
    for count in (97, 98, 99, 300):
        answer = text_world.predict("other", {"text": words(count, 2)})
        assert close(outputs_of(answer.json()), bare(words(count, 2)))
    assert bare(words(98, 2)) == bare(words(300, 2)) != bare(words(97, 2))


def test_stored_texts_of_all_lengths_in_one_batch(text_world: TextWorld) -> None:
    entities = list(STORED)
    results = text_world.batch("text", entities)
    for entity, result in zip(entities, results, strict=True):
        assert result["source"] == "live"
        assert close(outputs_of(result), text_world.bare["text"](STORED[entity])), entity


async def test_mixed_lengths_on_many_connections_while_another_padding_is_served(text_world: TextWorld) -> None:
    connections, requests = 24, 20
    wrong: list[object] = []

    async def ask(client: httpx.AsyncClient, connection: int) -> None:
        for place in range(requests):
            number = connection * requests + place
            model = ("text", "other")[number % 2]
            text = words((0, 1, 6, 28, 90, 97, 200, 700)[number % 8], number)
            added = float(number) if model == "text" else 0.0
            features = {"text": text, **({"number": added} if model == "text" else {})}
            body = {"entity": f"c{number}", "features": features}
            answer = await client.post(f"{text_world.api.base}/v1/models/{model}/predict", json=body)
            expected = text_world.bare[model](text, added)
            if answer.status_code != 200 or not close(outputs_of(answer.json()), expected):
                wrong.append((model, number, answer.status_code, answer.text, expected))

    before = text_world.node.worker_pids
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    async with httpx.AsyncClient(limits=limits, timeout=30) as client:
        await asyncio.gather(*(ask(client, connection) for connection in range(connections)))
    assert wrong == []
    assert text_world.node.worker_pids == before


@pytest.mark.parametrize("text", ['"\\udc00"', '"w1 \\ud83d w2"', "7", "null", '["w1"]'])
def test_what_is_no_text_is_refused_by_name(text_world: TextWorld, text: str) -> None:
    body = f'{{"entity": "e", "features": {{"text": {text}}}}}'.encode()
    answer = text_world.api.client.post(
        "/v1/models/text/predict", content=body, headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_features"), answer.text
    assert [error["field"] for error in answer.json()["errors"]] == ["features.text"]


def test_half_a_pair_fails_its_own_row_of_a_batch(text_world: TextWorld) -> None:
    items = ", ".join(
        f'{{"entity": "e", "features": {{"text": {text}, "number": 77}}}}' for text in ('"w1"', '"\\udc00"', '""')
    )
    answer = text_world.api.client.post(
        "/v1/models/text/predictions:batch",
        content=f'{{"items": [{items}]}}'.encode(),
        headers={"Content-Type": "application/json"},
    )
    good, bad, empty = answer.json()["results"]
    assert (bad["code"], bad["errors"][0]["field"]) == ("invalid_features", "features.text")
    assert close(outputs_of(good), text_world.bare["text"]("w1", 77.0))
    assert close(outputs_of(empty), text_world.bare["text"]("", 77.0))


def test_the_same_text_is_kept_under_one_digest_in_any_company(text_world: TextWorld) -> None:
    item = {"entity": "e", "features": {"text": "w8 w9", "number": 4321}}
    first = text_world.batch("text", [item, {"entity": "f", "features": {"text": LONG[0], "number": 4321}}])
    assert first[0]["source"] == "live"
    deadline = 50
    while (again := text_world.predict("text", item["features"]).json())["source"] != "cached":
        deadline -= 1  # what is written back is there a moment later
        assert deadline, again
    assert outputs_of(again) == pytest.approx(outputs_of(first[0]), abs=1e-6)


async def test_a_batch_of_long_texts_does_not_stop_the_event_loop(text_world: TextWorld) -> None:
    base = text_world.api.base
    # As much text as a body may hold: seconds of tokenizing.
    texts = [words(4800, place) for place in range(190)]
    items = [{"entity": f"e{place}", "features": {"text": text, "number": 9}} for place, text in enumerate(texts)]
    async with httpx.AsyncClient(timeout=30) as client:
        await client.get(f"{base}/healthz")
        batch = asyncio.create_task(client.post(f"{base}/v1/models/text/predictions:batch", json={"items": items}))
        slowest_s, probes = 0.0, 0
        while not batch.done():
            began_s = time.monotonic()
            assert (await client.get(f"{base}/healthz")).status_code == 200
            slowest_s, probes = max(slowest_s, time.monotonic() - began_s), probes + 1
            await asyncio.sleep(0.02)
        answer = await batch
    assert answer.status_code == 200, answer.text
    results = answer.json()["results"]
    assert all(
        close(outputs_of(results[place]), text_world.bare["text"](texts[place], 9.0)) for place in (0, 99, 189)
    )
    assert slowest_s < 1.0, (slowest_s, probes)
