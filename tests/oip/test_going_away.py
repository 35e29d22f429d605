"""Clients that go away, by HTTP and by gRPC: their rows are not executed, and those behind them are served."""

import asyncio
import contextlib
import time

import grpc
import httpx
import orjson

from online.inference.node.oip import open_inference_pb2 as pb
from tests.oip.conftest import MAX_BATCH_ROWS, json_inputs, random_rows
from tests.support.inference import NodeProcess

INFER = "/v2/models/tiny/versions/1/infer"
AHEAD_ROWS = 40 * MAX_BATCH_ROWS  # about a second of the device


async def counted(node: NodeProcess, name: str) -> float:
    lines = (await node.get("/metrics")).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


async def grows(node: NodeProcess, name: str, before: float, by: float) -> None:
    """Waits until the count has grown so much; workers report each second."""
    end_s = time.monotonic() + 10
    while (now := await counted(node, name)) < before + by:
        assert time.monotonic() < end_s, f"{name} is {now}"
        await asyncio.sleep(0.1)


CANCELLED = 'hotset_inference_requests_total{model="tiny",outcome="cancelled",version="1"}'
ROWS = 'hotset_inference_rows_total{model="tiny",version="1"}'


async def settled(node: NodeProcess) -> tuple[float, float]:
    """Cancelled requests and executed rows, once they stand still."""
    last = (-1.0, -1.0)
    while (now := (await counted(node, CANCELLED), await counted(node, ROWS))) != last:
        last = now
        await asyncio.sleep(1.2)
    return now


async def test_http_clients_that_disconnect_withdraw_their_rows(
    node: NodeProcess, http: httpx.AsyncClient
) -> None:
    cancelled, rows = await settled(node)
    ahead = asyncio.create_task(
        http.post(INFER, content=orjson.dumps({"inputs": json_inputs(random_rows(AHEAD_ROWS))}))
    )
    await asyncio.sleep(0.1)
    victims = [asyncio.create_task(disconnecting(node.http_url)) for _ in range(5)]
    await asyncio.gather(*victims)
    behind = await http.post(INFER, content=orjson.dumps({"inputs": json_inputs(random_rows(3))}))
    assert (await ahead).status_code == behind.status_code == 200
    await grows(node, CANCELLED, cancelled, 5)
    assert await settled(node) == (cancelled + 5, rows + AHEAD_ROWS + 3)


async def test_a_timeout_is_kept_while_the_device_is_busy(node: NodeProcess, http: httpx.AsyncClient) -> None:
    ahead = asyncio.create_task(
        http.post(INFER, content=orjson.dumps({"inputs": json_inputs(random_rows(AHEAD_ROWS))}))
    )
    await asyncio.sleep(0.1)
    body = {"inputs": json_inputs(random_rows(MAX_BATCH_ROWS)), "parameters": {"timeout": 100_000, "priority": 2}}
    answer = await http.post(INFER, content=orjson.dumps(body))
    assert answer.status_code == 503, answer.text
    assert not ahead.done(), "answered when the device was free, not when its time was up"
    assert (await ahead).status_code == 200


async def disconnecting(url: str) -> None:
    """Sends a whole request of 16 rows, and closes the connection while it waits."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = orjson.dumps({"inputs": json_inputs(random_rows(16))})
    head = f"POST {INFER} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.15):
            assert await reader.read(1) == b"", "answered, although the device is busy"
    writer.close()
    await writer.wait_closed()


async def test_grpc_clients_that_cancel_withdraw_their_rows(node: NodeProcess) -> None:
    cancelled, rows = await settled(node)
    async with grpc.aio.insecure_channel(node.grpc_address) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        ahead = call(message(AHEAD_ROWS))
        await asyncio.sleep(0.1)
        victims = [call(message(16)) for _ in range(5)]
        late = [call(message(16), timeout=0.15) for _ in range(3)]
        await asyncio.sleep(0.15)
        for victim in victims:
            victim.cancel()
        for (
            call_
        ) in late:  # refused at once where the queue is known to be too long, else given up at its deadline
            with contextlib.suppress(grpc.aio.AioRpcError):
                await call_
            assert await call_.code() in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE)
        await call(message(3))
        await ahead
    await grows(node, CANCELLED, cancelled, 5)
    assert (await settled(node))[1] == rows + AHEAD_ROWS + 3


def message(rows: int) -> bytes:
    tensor = pb.ModelInferRequest.InferInputTensor
    numbers, airline = random_rows(rows)
    return pb.ModelInferRequest(
        model_name="tiny",
        model_version="1",
        inputs=[
            tensor(name="numbers", datatype="FP32", shape=numbers.shape),
            tensor(name="airline", datatype="INT64", shape=airline.shape),
        ],
        raw_input_contents=[numbers.tobytes(), airline.tobytes()],
    ).SerializeToString()
