"""The committed OpenAPI document is what the service says of itself: its clients are generated from it."""

import subprocess
import sys
from pathlib import Path

import orjson

from schemas.http import ProblemCode
from tests.support.api_process import ROOT, ApiProcess

COMMITTED = ROOT / "online" / "api" / "openapi.json"


def test_the_committed_document_is_the_running_services(tmp_path: Path) -> None:
    """To renew it: `python -m online.api --openapi > online/api/openapi.json`."""
    committed = orjson.loads(COMMITTED.read_bytes())
    with ApiProcess(tmp_path, redis_url="redis://127.0.0.1:1/0") as api:
        assert api.client.get("/openapi.json").json() == committed


def test_it_is_printed_as_committed() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "online.api", "--openapi"], capture_output=True, cwd=ROOT, check=True, timeout=60
    )
    assert printed.stdout == COMMITTED.read_bytes()


def test_every_end_point_is_in_it() -> None:
    document = orjson.loads(COMMITTED.read_bytes())
    assert sorted((path, *methods) for path, methods in document["paths"].items()) == [
        ("/healthz", "get"),
        ("/metrics", "get"),
        ("/readyz", "get"),
        ("/v1/models/{model}", "get"),
        ("/v1/models/{model}/predict", "post"),
        ("/v1/models/{model}/predictions/{entity}", "get"),
        ("/v1/models/{model}/predictions:batch", "post"),
        ("/v1/models/{model}/predictions:invalidate", "post"),
    ]
    schemas = document["components"]["schemas"]
    assert schemas["ProblemCode"]["enum"] == list(ProblemCode)
    assert _references(document) <= {f"#/components/schemas/{name}" for name in schemas}


def _references(node: object) -> set[str]:
    if isinstance(node, dict):
        own = {str(node["$ref"])} if "$ref" in node else set()
        return own.union(*(_references(value) for value in node.values()))
    if isinstance(node, list):
        return set().union(*(_references(value) for value in node))
    return set()
