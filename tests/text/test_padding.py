"""What travels for text: one request for each padded length, and only shapes that the bundle names are taken."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from redis import Redis

from online.api.routes.manifests import ManifestStore
from online.inference.worker.contract import Contract, Refused
from schemas import wire
from schemas.bundle import Bundle, BundleError
from schemas.manifest import MANIFEST_FILE, TOKENIZER_FILE
from tests.support.api_process import ApiProcess, wait_for
from tests.support.bundles import text_bundle
from tests.support.redis_server import RedisServer
from tests.support.texts import with_tokenizer, words
from tests.support.wire_worker import WireNode, served
from tests.text.conftest import publish


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return text_bundle(tmp_path_factory.mktemp("text") / "text")


def test_a_long_row_travels_apart_from_short_ones(bundle: Bundle, tmp_path: Path) -> None:
    shapes: list[tuple[int, ...]] = []

    def forward(tensors: dict[str, wire.Tensor]) -> wire.Float32Array:
        assert tensors["ids"].shape == tensors["mask"].shape
        shapes.append(tensors["ids"].shape)
        kept = tensors["mask"].sum(axis=1, keepdims=True)
        return np.concatenate([kept, tensors["number"]], axis=1).astype(np.float32)

    raw = (bundle.folder / MANIFEST_FILE).read_bytes()
    texts = [words(count) for count in (*[1] * 70, 700, 20, 0, 7)]
    items = [
        {"entity": f"e{place}", "features": {"text": text, "number": place}} for place, text in enumerate(texts)
    ]
    with RedisServer() as server, Redis.from_url(server.url) as redis:
        publish(redis, bundle, None)
        settings = {"redis_url": server.url, "models": ["text"], "allowed_bundle_urls": [str(bundle.folder)]}
        with WireNode(served(raw, forward)) as node, ApiProcess(tmp_path, nodes=[node.address], **settings) as api:
            api.wait_ready()
            answer = api.client.post("/v1/models/text/predictions:batch", json={"items": items})
    found = [(result["outputs"]["late"], result["outputs"]["minutes"]) for result in answer.json()["results"]]
    expected = [*[3] * 70, 512, 22, 2, 9]
    assert found == [(tokens, place) for place, tokens in enumerate(expected)]
    # Rows of one length fill batches of 64, the largest that the bundle takes.
    assert sorted(shapes) == [(1, 16), (1, 32), (1, 512), (7, 8), (64, 8)]


def request(bundle: Bundle, ids: tuple[int, ...], mask: tuple[int, ...], number: tuple[int, ...]) -> wire.Request:
    tensors: list[wire.Tensor] = [np.zeros(ids, np.int64), np.zeros(mask, np.int64), np.zeros(number, np.float32)]
    return wire.Request(1, wire.version_tag(bundle.digest), 0, 0, tensors)


@pytest.mark.parametrize("length", [8, 16, 32, 64, 128, 256, 512])
def test_the_worker_takes_the_lengths_that_the_bundle_names(bundle: Bundle, length: int) -> None:
    Contract(bundle.manifest, bundle.digest).check(request(bundle, (3, length), (3, length), (3, 1)))


@pytest.mark.parametrize(
    ("ids", "mask", "number", "message"),
    [
        ((3, 9), (3, 9), (3, 1), r"input ids must be \(3, 8 or 16 .* int64, not \(3, 9\) int64"),
        ((3, 1024), (3, 1024), (3, 1), "input ids must be"),
        ((3, 0), (3, 0), (3, 1), "input ids must be"),
        ((3, 16), (3, 8), (3, 1), "input mask must be as long as the other of its feature: 16"),
        ((3, 8), (2, 8), (3, 1), "input mask must be"),
        ((3, 8, 1), (3, 8), (3, 1), "input ids must be"),
        ((3, 8), (3, 8), (3, 2), r"input number must be \(3, 1\) float32"),
    ],
)
def test_other_shapes_are_refused_alone(
    bundle: Bundle, ids: tuple[int, ...], mask: tuple[int, ...], number: tuple[int, ...], message: str
) -> None:
    with pytest.raises(Refused, match=message):
        Contract(bundle.manifest, bundle.digest).check(request(bundle, ids, mask, number))


def test_a_worker_of_the_api_starts_without_the_bundles_store(bundle: Bundle, tmp_path: Path) -> None:
    url, allowed = str(bundle.folder), (str(bundle.folder),)
    first = ManifestStore(tmp_path, allowed).transform(url, bundle.digest)
    again = ManifestStore(tmp_path, ()).transform("/gone", bundle.digest)
    records = [{"text": words(20)}]
    assert np.array_equal(first.records(records).tensors["ids"], again.records(records).tensors["ids"])


def test_a_damaged_copy_of_the_tokenizer_is_fetched_anew(bundle: Bundle, tmp_path: Path) -> None:
    url, allowed = str(bundle.folder), (str(bundle.folder),)
    ManifestStore(tmp_path, allowed).transform(url, bundle.digest)
    (copy,) = tmp_path.glob(f"*{TOKENIZER_FILE}")
    copy.write_bytes(b"{}")
    with pytest.raises(BundleError, match="none of the allowed"):
        ManifestStore(tmp_path, ()).transform(url, bundle.digest)
    ManifestStore(tmp_path, allowed).transform(url, bundle.digest)
    assert copy.read_bytes() == (bundle.folder / TOKENIZER_FILE).read_bytes()


@pytest.mark.long
def test_a_version_whose_tokenizer_is_none_is_not_routed_to(bundle: Bundle, tmp_path: Path) -> None:
    bad = text_bundle(tmp_path / "bad", "2", seed=1)
    digest = with_tokenizer(bad.folder, b"[" * 100_000)
    with RedisServer() as server, Redis.from_url(server.url) as redis:
        publish(redis, bundle, None)
        settings = {"models": ["text"], "allowed_bundle_urls": [str(bundle.folder), str(bad.folder)]}
        with ApiProcess(tmp_path, redis_url=server.url, **settings) as api:
            wait_for(lambda: api.client.get("/v1/models/text").status_code == 200, what="the good version")
            publish(redis, replace(bad, digest=digest), None, epoch=2)
            reason = "the bundle of version 2 cannot be used: tokenizer.json is refused: it is no tokenizer"
            wait_for(lambda: reason in api.log_tail(), what="the refusal in the log")
            assert api.client.get("/v1/models/text").json()["stable"] == "1"
