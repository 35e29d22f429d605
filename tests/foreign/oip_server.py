"""A small server of the Open Inference Protocol in a process of its own, on uvicorn: written for these tests.

It computes what `small_forward` does, as JSON or with binary tensors. How it behaves is told it by `PUT
/behaviour`, and what it saw is read by `GET /seen`; both are JSON. Run as a program, it prints its port.
"""

import asyncio
import json
import socket
import sys
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import uvicorn

LENGTH = "inference-header-content-length"
DTYPES = {"FP32": "<f4", "INT64": "<i8"}


@dataclass
class Behaviour:
    """How to answer. `kind`: see `infer`. `scale` other than 1 is another model. `retry_after`: of a 503."""

    kind: str = "answer"
    ready: bool = True
    binary: bool = False
    delay_s: float = 0.0
    scale: float = 1.0
    retry_after: str | None = None
    status: int = 503
    body: str = ""
    split: bool = False


@dataclass
class Seen:
    """`infers`, `gone`: requests that came, and of them those whose client went away before the answer."""

    infers: int = 0
    gone: int = 0
    at_once: int = 0
    most_at_once: int = 0
    paths: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    timeouts_us: list[int] = field(default_factory=list)
    was_binary: bool = False


behaviour, seen = Behaviour(), Seen()


async def app(scope: Any, receive: Any, send: Any) -> None:
    global behaviour, seen
    if scope["type"] != "http":
        return
    path, method = scope["path"], scope["method"]
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    if path == "/behaviour":
        behaviour, seen = Behaviour(**json.loads(body)), Seen()
        await answer(send, 200, b"{}")
    elif path == "/seen":
        await answer(send, 200, json.dumps(asdict(seen)).encode())
    elif path == "/v2":
        extensions = ["binary_tensor_data"] if behaviour.binary else []
        await answer(send, 200, json.dumps({"name": "test", "extensions": extensions}).encode())
    elif path.endswith("/ready"):
        await answer(send, 200 if behaviour.ready else 400, b"")
    elif path.endswith("/infer") and method == "POST":
        await infer(path, dict(scope["headers"]), body, receive, send)
    else:
        await answer(send, 404, b'{"error":"no such thing"}')


async def infer(path: str, headers: dict[bytes, bytes], body: bytes, receive: Any, send: Any) -> None:
    seen.infers += 1
    seen.paths.append(path)
    head, tensors = parse(headers, body)
    seen.inputs = [item["name"] for item in head["inputs"]]
    seen.outputs = [item["name"] for item in head.get("outputs", ())]
    seen.timeouts_us.append(head["parameters"]["timeout"])
    seen.was_binary = LENGTH.encode() in headers
    seen.at_once += 1
    seen.most_at_once = max(seen.most_at_once, seen.at_once)
    leaving = asyncio.ensure_future(receive())
    try:
        await asyncio.wait([leaving], timeout=behaviour.delay_s)
        if leaving.done():
            seen.gone += 1
            return
    finally:
        leaving.cancel()
        seen.at_once -= 1
    if behaviour.kind == "refuse":
        extra = [(b"retry-after", behaviour.retry_after.encode())] if behaviour.retry_after is not None else []
        await answer(send, behaviour.status, b'{"error":"told so"}', extra)
    elif behaviour.kind == "body":
        await answer(send, 200, behaviour.body.encode("latin-1"))
    elif behaviour.kind == "break":
        # Shorter than it says: the server then closes the connection.
        start = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"100")]}
        await send(start)
        await send({"type": "http.response.body", "body": b"{", "more_body": True})
        raise RuntimeError("broken off")
    else:
        await answer(send, *encode(forward(list(tensors.values()))))


def parse(headers: dict[bytes, bytes], body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    length = int(headers.get(LENGTH.encode(), len(body)))
    head, tail = json.loads(body[:length]), body[length:]
    tensors = {}
    for item in head["inputs"]:
        if "data" in item:
            values = np.array(item["data"], DTYPES[item["datatype"]])
        else:
            size = item["parameters"]["binary_data_size"]
            values, tail = np.frombuffer(tail[:size], DTYPES[item["datatype"]]), tail[size:]
        tensors[item["name"]] = values.reshape(item["shape"])
    assert not tail
    return head, tensors


def forward(tensors: list[Any]) -> Any:
    """As `small_forward`: numbers (n, 1) and places (n, 2) to (n, 2). NaN for a number of 0.666 where told so."""
    numbers, places = tensors
    late = np.where(places[:, 0] > 0, 0.5, 0.49999997)
    minutes = (numbers[:, 0] + 0.125 * places[:, 1]) * behaviour.scale
    if behaviour.kind == "nan":
        minutes[np.isclose(numbers[:, 0], 0.666)] = np.nan
    return np.stack([late, minutes], axis=1).astype(np.float32)


def encode(outputs: Any) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    columns = {"out": outputs}
    if behaviour.split:  # an output each, not in our order
        columns = {"second": outputs[:, 1], "first": outputs[:, 0]}
    told: list[dict[str, Any]] = []
    tail = b""
    for name, values in columns.items():
        item: dict[str, Any] = {"name": name, "shape": values.shape, "datatype": "FP32"}
        if behaviour.binary:
            item["parameters"] = {"binary_data_size": values.nbytes}
            tail += np.ascontiguousarray(values).tobytes()
        else:
            item["data"] = values.ravel().tolist()
        told.append(item)
    head = json.dumps({"model_name": "test", "outputs": told}).encode()
    extra = [(LENGTH.encode(), str(len(head)).encode())] if behaviour.binary else []
    return 200, head + tail, extra


async def answer(send: Any, status: int, body: bytes, extra: list[tuple[bytes, bytes]] | None = None) -> None:
    headers = [(b"content-length", str(len(body)).encode()), *(extra or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    print(listener.getsockname()[1], flush=True)  # noqa: T201 - who started it reads this
    uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off")).run([listener])
