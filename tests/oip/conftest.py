"""One node for all tests of the public protocol: two versions of one model, and one whose outputs may be infinite.

Its device is emulated, so that what is queued behind a batch stays queued for a known time.
"""

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from runtime.program import load_program
from schemas.bundle import Bundle
from schemas.features import FeatureTransform
from schemas.outputs import Float32Array, calibrate
from schemas.wire import Tensor
from tests.support.bundles import edge_bundle, linear_bundle, log_bundle, text_bundle
from tests.support.inference import NodeProcess, address_of

TAU0_MS, ALPHA_MS = 20.0, 0.5
MAX_BATCH_ROWS = 16
MAX_BODY_BYTES = 1 << 20
TOKEN = "let-me-in"
RECORDS = [
    {"distance": 100.0 + 37.0 * row, "delay": float(row - 30), "airline": ("AA", "DL", "UA", "XX")[row % 4]}
    for row in range(40)
]


@pytest.fixture(scope="session")
def bundles_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("oip-bundles")


@pytest.fixture(scope="session")
def bundle(bundles_folder: Path) -> Bundle:
    return linear_bundle(bundles_folder / "tiny-1", version="1", seed=1, scale=0.5)


@pytest.fixture(scope="session")
def other_bundle(bundles_folder: Path) -> Bundle:
    return linear_bundle(bundles_folder / "tiny-2", version="2", seed=2)


@pytest.fixture(scope="session")
def infinite_bundle(bundles_folder: Path) -> Bundle:
    return log_bundle(bundles_folder / "log")


@pytest.fixture(scope="session")
def words_bundle(bundles_folder: Path) -> Bundle:
    return text_bundle(bundles_folder / "text")


@pytest.fixture(scope="session")
def late_bundle(bundles_folder: Path) -> Bundle:
    """Not served from the start; for loading."""
    return edge_bundle(bundles_folder / "edge")


@pytest.fixture(scope="session")
def running(
    tmp_path_factory: pytest.TempPathFactory,
    bundles_folder: Path,
    bundle: Bundle,
    other_bundle: Bundle,
    infinite_bundle: Bundle,
    words_bundle: Bundle,
) -> Iterator[NodeProcess]:
    token = tmp_path_factory.mktemp("admin") / "token"
    token.write_text(f"{TOKEN}\n")
    bundles = (bundle, other_bundle, infinite_bundle, words_bundle)
    with NodeProcess.run(
        tmp_path_factory.mktemp("cache"),
        [address_of(each) for each in bundles],
        [bundles_folder],
        device=f"emulated:{TAU0_MS},{ALPHA_MS}",
        max_batch_rows=MAX_BATCH_ROWS,
        max_body_bytes=MAX_BODY_BYTES,
        default_timeout_s=30.0,
        admin_token=token,
    ) as node:
        yield node


@pytest.fixture
async def node(running: NodeProcess, bundle: Bundle, other_bundle: Bundle) -> NodeProcess:
    """With both versions of `tiny` ready."""
    await running.ready(bundle.digest, other_bundle.digest)
    return running


@pytest.fixture
async def http(node: NodeProcess) -> Iterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=node.http_url, timeout=30.0) as client:
        yield client


def random_rows(rows: int, seed: int = 0) -> list[Tensor]:
    """`numbers` and `airline` of `linear_bundle`."""
    generator = np.random.default_rng(seed)
    return [
        generator.normal(size=(rows, 2)).astype(np.float32),
        generator.integers(0, 4, size=(rows, 1), dtype=np.int64),
    ]


def stored(bundle: Bundle, tensors: list[Tensor], raw: bool = False) -> Float32Array:
    """(n, 2): what the program alone gives, calibrated unless `raw`."""
    program = load_program(bundle.folder, bundle.manifest)
    chunks = [slice(row, row + 50) for row in range(0, len(tensors[0]), 50)]
    found = np.concatenate([program({"numbers": tensors[0][c], "airline": tensors[1][c]}) for c in chunks])
    return found if raw else calibrate(bundle.manifest.output, found)


def stored_of_records(bundle: Bundle, records: list[dict[str, object]]) -> Float32Array:
    tensors = FeatureTransform(bundle.manifest).records(records).tensors
    return stored(bundle, [tensors["numbers"], tensors["airline"]])


def json_inputs(tensors: list[Tensor]) -> list[dict[str, object]]:
    return [
        {"name": name, "datatype": datatype, "shape": list(tensor.shape), "data": tensor.tolist()}
        for name, datatype, tensor in zip(("numbers", "airline"), ("FP32", "INT64"), tensors, strict=True)
    ]
