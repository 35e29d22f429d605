"""What tests of REST by hand share: sending a document, and reading outputs or the error."""

from typing import Any

import httpx
import numpy as np
import orjson

INFER = "/v2/models/tiny/versions/1/infer"
LENGTH = "Inference-Header-Content-Length"


async def post(http: httpx.AsyncClient, document: object, path: str = INFER) -> httpx.Response:
    return await http.post(path, content=orjson.dumps(document))


def error_of(answer: httpx.Response, status: int) -> str:
    """The answer is an error as the protocol has it, and nothing beside."""
    assert answer.status_code == status, answer.text
    document = answer.json()
    assert list(document) == ["error"]
    return str(document["error"])


def outputs_of(answer: httpx.Response) -> dict[str, np.ndarray[Any, Any]]:
    assert answer.status_code == 200, answer.text
    return {output["name"]: np.array(output["data"], np.float32) for output in answer.json()["outputs"]}
