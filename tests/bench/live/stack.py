"""The real two tiers as processes: Valkey, a node with an emulated device, the API with one worker."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from redis import Redis

from schemas.bundle import Bundle
from schemas.keys import routes_key
from schemas.routes import RoutesDocument, Version
from tests.bench.known import ALPHA_MS, MAX_BATCH_ROWS, TAU0_MS
from tests.bench.live.asking import Server
from tests.support.api_process import ApiProcess
from tests.support.inference import NodeProcess, address_of
from tests.support.redis_server import RedisServer

_COUNT = re.compile(r"^hotset_inference_(\w+)_total\{[^}]*\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Stack:
    """What runs; `server` is where its predictions are asked for."""

    server: Server
    node: NodeProcess
    api: ApiProcess

    def device_counts(self) -> dict[str, float]:
        """Batches, rows, emulated overruns and so on, from the node's metrics: totals since it started."""
        text = httpx.get(f"{self.node.http_url}/metrics").text
        return {name: float(value) for name, value in _COUNT.findall(text)}


@contextmanager
def product(folder: Path, bundle: Bundle, device: str = f"emulated:{TAU0_MS:g},{ALPHA_MS:g}") -> Iterator[Stack]:
    """Settings are those of the local stack, but for ports, folders, and what the benchmark says: one worker each,
    and no results kept of features that were brought."""
    model = bundle.manifest.name
    limits = {"unix_sockets": folder / "sockets", "device": device, "max_batch_rows": MAX_BATCH_ROWS, "threads": 1}
    with ExitStack() as stack:
        # `enter_context` ends what has started; what is interrupted while it starts, the callbacks do.
        redis = RedisServer()
        stack.callback(redis.stop)
        stack.enter_context(redis)
        bundles, allowed = [address_of(bundle)], [bundle.folder]
        node = stack.enter_context(NodeProcess.run(folder / "bundles", bundles, allowed, **limits))
        _wait_ready(node, bundle)
        _route(redis.url, bundle)
        api = ApiProcess(
            folder,
            redis_url=redis.url,
            nodes=[node.wire_address],
            models=[model],
            allowed_bundle_urls=[str(bundle.folder)],
            lookup_budget_ms="20",
            input_cache=False,
        )
        stack.callback(api.kill)
        stack.enter_context(api).wait_ready()
        yield Stack(Server("127.0.0.1", api.port, f"/v1/models/{model}/predict"), node, api)


def _wait_ready(node: NodeProcess, bundle: Bundle) -> None:
    try:
        asyncio.run(node.ready(bundle.digest))
    except TimeoutError:
        raise RuntimeError(f"the node did not get ready; it said last: {node.logs[-1]}") from None


def _route(redis_url: str, bundle: Bundle) -> None:
    """Makes the bundle the stable version: without a generation, so every answer is live."""
    model, version = bundle.manifest.name, bundle.manifest.version
    routed = Version(ordinal=1, bundle_url=str(bundle.folder), bundle_digest=bundle.digest)
    document = RoutesDocument(model=model, epoch=1, revision=1, stable=version, versions={version: routed})
    with Redis.from_url(redis_url) as client:
        client.set(routes_key(model), document.model_dump_json())
