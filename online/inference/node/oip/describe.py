"""What the protocol tells of the server, its models and its repository, as JSON documents. Pure."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version as package_version
from typing import Any

from online.inference.node.oip.datatypes import BYTES, FP32, OF_TENSOR
from online.inference.node.version import Version
from online.inference.report import State
from schemas.manifest import AnyOutput, CategoryFeature, Manifest, Output, TextFeature

_Document = dict[str, Any]

SERVER = "hotset"
PLATFORM = "pytorch_export"
EXTENSIONS = (
    "binary_tensor_data",
    "model_configuration",
    "model_repository",
    "parameters",
    "schedule_policy",
    "statistics",
)
_STATES = {
    State.LOADING: "LOADING",
    State.READY: "READY",
    State.FAILED: "UNAVAILABLE",
    State.DRAINING: "UNLOADING",
    State.STOPPED: "UNAVAILABLE",
}
_CONFIG_TYPES = {"float32": "TYPE_FP32", "int64": "TYPE_INT64"}


def server() -> _Document:
    return {"name": SERVER, "version": _version(), "extensions": list(EXTENSIONS)}


@cache
def _version() -> str:
    return package_version("hotset")


def model(manifest: Manifest, versions: Sequence[str]) -> _Document:
    """`inputs` are the program's tensors; `features` what may be given in their place, one value a row each."""
    return {
        "name": manifest.name,
        "versions": list(versions),
        "platform": PLATFORM,
        "inputs": [
            {"name": tensor.name, "datatype": OF_TENSOR[tensor.dtype], "shape": [-1, tensor.width]}
            for tensor in manifest.inputs
        ],
        "outputs": [
            {"name": output.name, "datatype": FP32, "shape": [-1, *_columns(output)]}
            for output in manifest.output.outputs
        ],
        "features": features(manifest),
    }


def features(manifest: Manifest) -> list[_Document]:
    """`datatype` of a number is the natural one; every other numeric datatype is taken too."""
    return [
        {
            "name": feature.name,
            "datatype": BYTES if isinstance(feature, CategoryFeature | TextFeature) else FP32,
            "shape": [-1],
            "optional": feature.missing is not None,
        }
        for feature in manifest.features
    ]


def config(manifest: Manifest, max_batch_rows: int | None) -> _Document:
    """In the form of Triton's `ModelConfig`, whose dimensions leave out the batch."""
    return {
        "name": manifest.name,
        "platform": PLATFORM,
        "backend": "pytorch",
        "max_batch_size": max_batch_rows or manifest.max_batch_rows,
        "input": [
            {"name": tensor.name, "data_type": _CONFIG_TYPES[tensor.dtype], "dims": [tensor.width]}
            for tensor in manifest.inputs
        ],
        "output": [
            {"name": output.name, "data_type": "TYPE_FP32", "dims": _columns(output)}
            for output in manifest.output.outputs
        ],
        "dynamic_batching": {},
        "model_transaction_policy": {"decoupled": False},
    }


def _columns(output: AnyOutput) -> list[int]:
    """Dimensions of an output beside the batch: none of a single number."""
    return [] if isinstance(output, Output) else [output.columns]


def is_server_ready(versions: Sequence[Version], is_draining: bool) -> bool:
    """At least one version serves: none at all is not ready."""
    return not is_draining and any(version.is_ready for version in versions)


def ready_versions(versions: Sequence[Version], name: str) -> list[str]:
    """The names of the model's versions that serve."""
    return [version.name for version in versions if version.model == name and version.is_ready and version.name]


def index(versions: Sequence[Version], only_ready: bool) -> list[_Document]:
    """A bundle whose manifest was never read has no name but its digest."""
    return [
        {
            "name": version.model or "unknown",
            "version": version.name or version.bundle.digest[:12],
            "state": _STATES[version.state],
            "reason": version.reason,
        }
        for version in versions
        if version.is_ready or not only_ready
    ]


def statistics(version: Version) -> _Document:
    """Counts since the node's start. Here requests are merged and split into batches, so times are sums over rows
    (queue) and over batches (compute)."""
    counts: Counter[str] = version.counts
    failed = sum(counts[name] for name in ("overloaded", "not_ready", "deadline_exceeded", "invalid", "failed"))
    return {
        "name": version.model,
        "version": version.name,
        "inference_count": counts["rows"],
        "execution_count": counts["batches"],
        "inference_stats": {
            "success": {"count": counts["answered"], "ns": counts["queue_ns"] + counts["busy_ns"]},
            "fail": {"count": failed, "ns": 0},
            "queue": {"count": counts["rows"], "ns": counts["queue_ns"]},
            "compute_infer": {"count": counts["batches"], "ns": counts["busy_ns"]},
        },
    }
