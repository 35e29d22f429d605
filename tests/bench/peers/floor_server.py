"""The floor: a bare ASGI callable that answers all requests with the same bytes, under uvicorn at its quickest."""

import argparse
from pathlib import Path
from typing import Any

import uvicorn

QUICKEST = {"loop": "uvloop", "http": "httptools", "ws": "none", "access_log": False, "log_level": "warning"}


class Constant:
    """`body` for every request, whatever it asks."""

    def __init__(self, body: bytes) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        self._start = {"type": "http.response.start", "status": 200, "headers": headers}
        self._body = {"type": "http.response.body", "body": body}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send(self._start)
        await send(self._body)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--body", type=Path, required=True, help="file of what is answered")
    options = parser.parse_args()
    app = Constant(options.body.read_bytes())
    uvicorn.run(app, host="127.0.0.1", port=options.port, lifespan="off", **QUICKEST)
