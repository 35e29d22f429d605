"""LitServe on the emulated device: one worker, its quick queue, a batching window of 1 ms."""

import argparse
import time
from typing import Any

import litserve

from tests.bench.known import MAX_BATCH_ROWS, batch_s, outputs_of


class Known(litserve.LitAPI):
    def setup(self, device: str) -> None:
        """Nothing to load."""

    def decode_request(self, request) -> dict[str, Any]:  # a type here would have FastAPI validate by it
        return request

    def batch(self, inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return inputs

    def predict(self, x: list[dict[str, Any]]) -> list[dict[str, Any]]:
        ends_s = time.perf_counter() + batch_s(len(x))
        answers = [{"entity": asked["entity"], "outputs": outputs_of(asked["features"])} for asked in x]
        time.sleep(max(0.0, ends_s - time.perf_counter()))
        return answers

    def unbatch(self, output: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return output

    def encode_response(self, output: dict[str, Any]) -> dict[str, Any]:
        return output


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    api = Known(max_batch_size=MAX_BATCH_ROWS, batch_timeout=0.001)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1, fast_queue=True)
    quiet = {"generate_client_file": False, "log_level": "warning"}
    server.run(host="127.0.0.1", port=options.port, num_api_servers=1, **quiet)
