"""The tier on real servers of the Open Inference Protocol, over real sockets: answers, refusals, losses."""

import asyncio
import json
import time

import numpy as np
import pytest

from online.api.live.foreign.naming import ForeignModel
from online.api.live.foreign.tier import ForeignTier
from online.errors import DeadlineExceeded, LiveUnavailable, ModelError, Overloaded, ServingError
from tests.foreign.asking import ask, tier_on, until
from tests.foreign.servers import DIGEST, OipServer, bare, routed, some_rows


@pytest.mark.parametrize("binary", [False, True])
async def test_an_answer(servers: tuple[OipServer, OipServer], binary: bool) -> None:
    servers[0].behave(binary=binary)
    async with tier_on(servers[0]) as tier:
        for count in (1, 2, 64):
            tensors = some_rows(count)
            result = await ask(tier, tensors)
            assert result.outputs.dtype == np.float32
            np.testing.assert_array_equal(result.outputs, bare(tensors))
            assert (result.batch_rows, result.queue_us, result.batch_us) == (count, 0, 0)
            assert result.execute_us > 0
    seen = servers[0].seen
    assert seen["was_binary"] is binary
    assert set(seen["paths"]) == {"/v2/models/delay/infer"}
    assert seen["inputs"] == ["numbers", "places"]


@pytest.mark.parametrize("binary", [False, True])
async def test_names_versions_and_an_output_each(servers: tuple[OipServer, OipServer], binary: bool) -> None:
    servers[0].behave(binary=binary, split=True)
    named = ForeignModel(
        model="theirs/é", version={"7": "3"}, inputs={"numbers": "x"}, outputs=("first", "second")
    )
    async with tier_on(servers[0], named=named, version="7") as tier:
        tensors = some_rows(4)
        np.testing.assert_array_equal((await ask(tier, tensors)).outputs, bare(tensors))
    seen = servers[0].seen
    assert set(seen["paths"]) == {"/v2/models/theirs/é/versions/3/infer"}
    assert seen["inputs"] == ["x", "places"]
    assert seen["outputs"] == ["first", "second"]


async def test_a_version_that_the_servers_are_not_said_to_have(servers: tuple[OipServer, OipServer]) -> None:
    views = {"delay": routed("8")}
    named = {"delay": ForeignModel(model="delay", version={"7": "3"})}
    async with ForeignTier([servers[0].url], named, 8, lambda: views) as tier:
        with pytest.raises(LiveUnavailable):
            await ask(tier)
        assert tier.warm_replicas(DIGEST) == 0


async def test_another_model_than_the_bundles_is_not_used(servers: tuple[OipServer, OipServer]) -> None:
    """It is found by the golden rows, and taken once they come out right."""
    servers[0].behave(scale=1.01)
    views = {"delay": routed()}
    async with ForeignTier([servers[0].url], {}, 8, lambda: views) as tier:
        await asyncio.to_thread(servers[0].wait_seen, lambda seen: seen["infers"] == 1)
        with pytest.raises(LiveUnavailable):
            await ask(tier)
        assert servers[0].seen["infers"] == 1  # that was the golden rows
        servers[0].behave(ready=False)
        await asyncio.sleep(1.2)  # a poll sees it
        servers[0].behave()
        await until(tier, lambda: tier.warm_replicas(DIGEST) == 1)
        assert len((await ask(tier)).outputs) == 3


async def test_a_refusal_that_may_have_executed_is_not_repeated(servers: tuple[OipServer, OipServer]) -> None:
    async with tier_on(*servers) as tier:
        for server in servers:
            server.behave(kind="refuse")
        with pytest.raises(LiveUnavailable):
            await ask(tier)
        assert sorted(server.seen["infers"] for server in servers) == [0, 1]
        assert tier.failovers == 0


async def test_a_refusal_with_retry_after_is_tried_once_elsewhere(servers: tuple[OipServer, OipServer]) -> None:
    async with tier_on(*servers) as tier:
        servers[0].behave(kind="refuse", retry_after="7")
        servers[1].behave()
        for _ in range(4):
            assert len((await ask(tier)).outputs) == 3
        assert tier.failovers == servers[0].seen["infers"] > 0
        servers[1].behave(kind="refuse", retry_after="7")
        with pytest.raises(Overloaded) as caught:
            await ask(tier)
        assert caught.value.retry_s == 7
        assert servers[1].seen["infers"] == 1


async def test_a_server_that_is_gone(servers: tuple[OipServer, OipServer]) -> None:
    """Its connection is refused, another does it; and it is used again when it has come back."""
    with OipServer() as third:
        async with tier_on(third, servers[0]) as tier:
            third.stop()
            await asyncio.sleep(0.05)  # what was sent before the loss is noticed may have been executed
            for _ in range(4):
                assert len((await ask(tier)).outputs) == 3
            assert tier.warm_replicas(DIGEST) == 1
            third.__enter__()  # on the same port
            await until(tier, lambda: tier.warm_replicas(DIGEST) == 2)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (429, Overloaded),
        (408, DeadlineExceeded),
        (504, DeadlineExceeded),
        (502, LiveUnavailable),
        (500, ModelError),
        (400, ModelError),
        (404, ModelError),
        (301, ModelError),
    ],
)
async def test_what_a_status_means(
    servers: tuple[OipServer, OipServer], status: int, expected: type[ServingError]
) -> None:
    async with tier_on(servers[0]) as tier:
        servers[0].behave(kind="refuse", status=status)
        with pytest.raises(expected):
            await ask(tier)
        assert servers[0].seen["infers"] == 1


async def test_a_bad_request_of_a_server_that_is_not_ready(servers: tuple[OipServer, OipServer]) -> None:
    async with tier_on(servers[0]) as tier:
        servers[0].behave(kind="refuse", status=400, ready=False)
        with pytest.raises(LiveUnavailable):
            await ask(tier)
        assert tier.warm_replicas(DIGEST) == 0


async def test_the_deadline_holds_and_ends_the_request(servers: tuple[OipServer, OipServer]) -> None:
    async with tier_on(servers[0]) as tier:
        servers[0].behave(delay_s=30)
        began_s = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            await ask(tier, within_s=0.3)
        assert 0.25 < time.monotonic() - began_s < 1.5
        seen = await asyncio.to_thread(servers[0].wait_seen, lambda seen: seen["gone"] == 1)
        assert 200_000 < seen["timeouts_us"][0] <= 300_000


async def test_a_caller_that_leaves_ends_the_request(servers: tuple[OipServer, OipServer]) -> None:
    async with tier_on(servers[0], concurrency=1) as tier:
        servers[0].behave(delay_s=30)
        asking = asyncio.create_task(ask(tier))
        await asyncio.to_thread(servers[0].wait_seen, lambda seen: seen["at_once"] == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.to_thread(servers[0].wait_seen, lambda seen: seen["gone"] == 1)
        servers[0].behave()
        assert len((await ask(tier)).outputs) == 3  # its slot is free again


def output(**told: object) -> str:
    return json.dumps({"outputs": [{"name": "out", "shape": [3, 2], "datatype": "FP32", "data": [0] * 6, **told}]})


@pytest.mark.parametrize(
    "body",
    [
        "",
        "\x00\xff garbage",
        "[1, 2]",
        "{}",
        '{"outputs": []}',
        '{"outputs": [17]}',
        output(shape=[2, 3]),
        output(shape=[3, 1], data=[0] * 3),
        output(shape=[6]),
        output(shape=[3, -2]),
        output(data=[0] * 5),
        output(data=["a"] * 6),
        output(data=None),
        output(datatype="BYTES"),
        output(name=None),
        output(parameters={"binary_data_size": 24}),
        '{"outputs": ' + "[" * 5000,
    ],
)
async def test_an_answer_that_is_none(servers: tuple[OipServer, OipServer], body: str) -> None:
    async with tier_on(servers[0]) as tier:
        servers[0].behave(kind="body", body=body)
        with pytest.raises(ModelError):
            await ask(tier)
        servers[0].behave()
        assert len((await ask(tier)).outputs) == 3


@pytest.mark.parametrize("binary", [False, True])
async def test_nan_comes_through_for_its_row_alone(servers: tuple[OipServer, OipServer], binary: bool) -> None:
    """Python's own JSON writes it as the word NaN; who answers callers refuses that row."""
    servers[0].behave(binary=binary)
    async with tier_on(servers[0]) as tier:
        servers[0].behave(kind="nan", binary=binary)
        tensors = some_rows(3)
        tensors[0][1, 0] = 0.666
        outputs = (await ask(tier, tensors)).outputs
        assert np.isnan(outputs).tolist() == [[False, False], [False, True], [False, False]]
        null = output(data=[0.5, 1.0, 0.5, None, 0.5, 2.0])
        servers[0].behave(kind="body", body=null)
        assert np.isnan((await ask(tier)).outputs).sum() == 1


async def test_a_server_that_breaks_off(servers: tuple[OipServer, OipServer]) -> None:
    """It may have executed: nobody else is asked."""
    async with tier_on(*servers) as tier:
        for server in servers:
            server.behave(kind="break")
        with pytest.raises(LiveUnavailable):
            await ask(tier)
        assert sorted(server.seen["infers"] for server in servers) == [0, 1]


async def test_readiness_is_followed(servers: tuple[OipServer, OipServer]) -> None:
    async with tier_on(*servers) as tier:
        servers[0].behave(ready=False)
        await until(tier, lambda: tier.warm_replicas(DIGEST) == 1)
        for _ in range(4):
            await ask(tier)
        assert (servers[0].seen["infers"], servers[1].seen["infers"] >= 4) == (0, True)
        servers[1].behave(ready=False)
        await until(tier, lambda: tier.warm_replicas(DIGEST) == 0)
        with pytest.raises(LiveUnavailable):
            await ask(tier)
        servers[0].behave()
        await until(tier, lambda: tier.warm_replicas(DIGEST) == 1)
        assert len((await ask(tier)).outputs) == 3
