"""Requests that wait together by the public protocol: each gets what it asked for, the urgent ones first."""

import asyncio
import time

import httpx
import numpy as np

from schemas.bundle import Bundle
from schemas.wire import Tensor
from tests.oip.conftest import MAX_BATCH_ROWS, json_inputs, random_rows, stored
from tests.oip.test_going_away import counted, grows, settled
from tests.support.inference import NodeProcess
from tests.support.oip import outputs_of, post

BATCHES = 'hotset_inference_batches_total{model="tiny",version="1"}'


QUEUED = 'hotset_inference_queued_rows{model="tiny",version="1"}'
AHEAD_BATCHES = 60  # of 28 ms each


async def busy(node: NodeProcess, http: httpx.AsyncClient) -> "asyncio.Task[httpx.Response]":
    """Keeps the device busy for more than half a second from when this returns; workers report each second."""
    rows = random_rows(AHEAD_BATCHES * MAX_BATCH_ROWS)
    ahead = asyncio.create_task(post(http, {"inputs": json_inputs(rows)}))
    while not await counted(node, QUEUED):
        assert not ahead.done()
        await asyncio.sleep(0.01)
    return ahead


async def test_requests_for_different_outputs_share_a_batch_and_each_has_its_own(
    node: NodeProcess, http: httpx.AsyncClient, bundle: Bundle
) -> None:
    await settled(node)
    before = await counted(node, BATCHES)
    ahead = await busy(node, http)
    wanted = [["late"], ["minutes"], ["minutes", "late"], []]
    asked = [random_rows(2, seed) for seed in range(len(wanted))]
    answers = await asyncio.gather(
        *(
            post(http, {"inputs": json_inputs(tensors), "outputs": [{"name": name} for name in names]})
            for tensors, names in zip(asked, wanted, strict=True)
        )
    )
    assert (await ahead).status_code == 200
    for answer, tensors, names in zip(answers, asked, wanted, strict=True):
        found, expected = outputs_of(answer), stored(bundle, tensors)
        assert list(found) == (names or ["late", "minutes"])
        for name, values in found.items():
            column = expected[:, ("late", "minutes").index(name)]
            np.testing.assert_allclose(values, column, rtol=1e-5, atol=1e-6)
    await grows(node, BATCHES, before, AHEAD_BATCHES + 1)
    assert await counted(node, BATCHES) == before + AHEAD_BATCHES + 1  # one of all four


async def test_what_has_a_lower_priority_is_served_after_what_came_later(
    node: NodeProcess, http: httpx.AsyncClient
) -> None:
    ahead = await busy(node, http)

    async def ended_s(tensors: list[Tensor], priority: int) -> float:
        body = {"inputs": json_inputs(tensors), "parameters": {"priority": priority}}
        assert (await post(http, body)).status_code == 200
        return time.monotonic()

    low = asyncio.create_task(ended_s(random_rows(MAX_BATCH_ROWS), 2))
    await asyncio.sleep(0.05)  # it comes first; should it not, the others are served first all the more
    high = [asyncio.create_task(ended_s(random_rows(MAX_BATCH_ROWS), priority)) for priority in (0, 1)]
    assert max(await asyncio.gather(*high)) < await low
    await ahead
