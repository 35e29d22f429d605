"""mosec on the emulated device, with its shortest batching window, 1 ms: a longer one waits on a free device."""

import time
from typing import Any

import msgspec
from mosec import Server, Worker

from tests.bench.known import MAX_BATCH_ROWS, batch_s, outputs_of


class Known(Worker):
    """JSON by msgspec, which mosec brings: quicker than its default, the standard library's."""

    def deserialize(self, data: bytes) -> Any:
        return msgspec.json.decode(data)

    def serialize(self, data: Any) -> bytes:
        return msgspec.json.encode(data)

    def forward(self, data: list[dict[str, Any]]) -> list[dict[str, Any]]:
        ends_s = time.perf_counter() + batch_s(len(data))
        answers = [{"entity": asked["entity"], "outputs": outputs_of(asked["features"])} for asked in data]
        time.sleep(max(0.0, ends_s - time.perf_counter()))
        return answers


if __name__ == "__main__":
    server = Server()
    server.append_worker(Known, num=1, max_batch_size=MAX_BATCH_ROWS, max_wait_time=1, timeout=30)
    server.run()
