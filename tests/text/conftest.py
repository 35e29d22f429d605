"""Two text bundles of different tokenizers, lengths and padding, on a real node behind a real API."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import httpx
import numpy as np
import pytest
import torch
from redis import Redis
from tokenizers import Tokenizer

from schemas.bundle import Bundle
from schemas.feature_table import pack_record
from schemas.keys import bucket_count, bucket_of, feature_key, field_of, routes_key
from schemas.manifest import TOKENIZER_FILE
from schemas.routes import FeatureTable, RoutesDocument, Version
from tests.support.api_process import ApiProcess, wait_for
from tests.support.bundles import Masking, MeanPooled, other_text_bundle, text_bundle
from tests.support.inference import NodeProcess, address_of
from tests.support.redis_server import RedisServer
from tests.support.texts import words

TABLE = "20261128T0200Z-1"
# What each entity's text is: as many words, from none to more than the limit.
STORED = {f"E{place}": words((0, 1, 3, 30, 120, 700)[place % 6], place) for place in range(60)}


@dataclass(frozen=True)
class Bare:
    """A text bundle without anything of ours: the library's tokenizer, and the module as it was written."""

    tokenizer: Tokenizer
    module: torch.nn.Module

    def __call__(self, text: str, number: float = 0.0) -> list[float]:
        """(K,) outputs of one text, by itself and not padded."""
        ids = torch.tensor([self.tokenizer.encode(text).ids], dtype=torch.int64)
        with torch.inference_mode():
            if isinstance(self.module, MeanPooled):
                found = self.module(ids, torch.ones_like(ids), torch.tensor([[number]]))
            else:
                found = self.module(ids) + number
        outputs: list[float] = found[0].tolist()
        return outputs


def bare(bundle: Bundle, make: Callable[[Tokenizer], torch.nn.Module]) -> Bare:
    tokenizer = Tokenizer.from_file(str(bundle.folder / TOKENIZER_FILE))
    tokenizer.no_padding()
    module = make(tokenizer).eval()
    tokenizer.enable_truncation(bundle.manifest.text_features["text"].max_tokens)
    return Bare(tokenizer, module)


@dataclass
class TextWorld:
    """What runs. `text` has entities with stored features, `STORED`; `other` has none."""

    api: ApiProcess
    node: NodeProcess
    bundles: Mapping[str, Bundle]
    bare: Mapping[str, Bare]

    def predict(self, model: str, features: object) -> httpx.Response:
        return self.api.client.post(f"/v1/models/{model}/predict", json={"entity": "e", "features": features})

    def batch(self, model: str, items: object) -> list[dict[str, object]]:
        answer = self.api.client.post(f"/v1/models/{model}/predictions:batch", json={"items": items})
        assert answer.status_code == 200, answer.text
        results: list[dict[str, object]] = answer.json()["results"]
        return results


@pytest.fixture(scope="package")
def text_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TextWorld]:
    folder = tmp_path_factory.mktemp("text")
    bundles = {"text": text_bundle(folder / "text"), "other": other_text_bundle(folder / "other")}
    by_model = {
        "text": bare(bundles["text"], lambda found: MeanPooled(found.get_vocab_size(), 0)),
        "other": bare(
            bundles["other"], lambda found: Masking(found.get_vocab_size(), 1, found.token_to_id("<pad>"))
        ),
    }
    with (
        NodeProcess.run(folder / "cache", [address_of(bundle) for bundle in bundles.values()], [folder]) as node,
        RedisServer() as server,
        Redis.from_url(server.url) as redis,
    ):
        for model, bundle in bundles.items():
            publish(redis, bundle, load_table(redis, model) if model == "text" else None)
        settings = {"redis_url": server.url, "models": list(bundles), "l1_bytes": "0", "deadline_ms": "8000"}
        with ApiProcess(folder, nodes=[node.wire_address], **settings) as api:
            world = TextWorld(api, node, bundles, by_model)
            # The API is ready with the first of them.
            wait_for(
                lambda: all(world.predict(one, {"text": "w0"}).is_success for one in bundles), 60, "both warm"
            )
            yield world


def publish(redis: "Redis[bytes]", bundle: Bundle, table: FeatureTable | None, epoch: int = 1) -> None:
    manifest = bundle.manifest
    version = Version(ordinal=1, bundle_url=str(bundle.folder), bundle_digest=bundle.digest, generations=())
    document = RoutesDocument(
        model=manifest.name,
        epoch=epoch,
        revision=1,
        stable=manifest.version,
        versions={manifest.version: version},
        features=table,
    )
    redis.set(routes_key(manifest.name), document.model_dump_json())


def load_table(redis: "Redis[bytes]", model: str) -> FeatureTable:
    buckets = bucket_count(len(STORED))
    for entity, text in STORED.items():
        raw = entity.encode()
        key = feature_key(model, TABLE, bucket_of(raw, buckets))
        redis.hset(key, field_of(raw), pack_record(raw, [text, None]))
    return FeatureTable(id=TABLE, buckets=buckets, features=("text", "number"), rows=len(STORED), as_of_ms=0)


def close(found: object, expected: object) -> bool:
    return bool(np.allclose(np.array(found, dtype=float), np.array(expected, dtype=float), rtol=1e-4, atol=1e-4))
