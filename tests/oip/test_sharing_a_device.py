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


async def busy(http: httpx.AsyncClient, batches: int) -> "asyncio.Task[httpx.Response]":
    """Keeps the device busy for so many full batches, of 28 ms each."""
    ahead = asyncio.create_task(post(http, {"inputs": json_inputs(random_rows(batches * MAX_BATCH_ROWS))}))
    await asyncio.sleep(0.03)
    return ahead


async def test_requests_for_different_outputs_share_a_batch_and_each_has_its_own(
    node: NodeProcess, http: httpx.AsyncClient, bundle: Bundle
) -> None:
    await settled(node)
    before = await counted(node, BATCHES)
    ahead = await busy(http, 10)
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
    await grows(node, BATCHES, before, 11)
    assert await counted(node, BATCHES) == before + 11  # ten of what was ahead, one of all four


async def test_what_has_a_lower_priority_is_served_after_what_came_later(http: httpx.AsyncClient) -> None:
    ahead = await busy(http, 12)

    async def ended_s(tensors: list[Tensor], priority: int) -> float:
        body = {"inputs": json_inputs(tensors), "parameters": {"priority": priority}}
        assert (await post(http, body)).status_code == 200
        return time.monotonic()

    low = asyncio.create_task(ended_s(random_rows(MAX_BATCH_ROWS), 2))
    await asyncio.sleep(0.05)
    high = [asyncio.create_task(ended_s(random_rows(MAX_BATCH_ROWS), priority)) for priority in (0, 1)]
    assert max(await asyncio.gather(*high)) < await low
    await ahead
