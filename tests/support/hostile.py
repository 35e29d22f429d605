"""Archives that try to run code when they are loaded: each writes a marker file where it succeeds.

`HOSTILE` names the place in which each hides; a case gets the parts of a good archive and changes them.
"""

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch

Parts = dict[str, bytes]
_SAMPLES = "data/sample_inputs/model.pt"
_PROGRAM = "models/model.json"
_WEIGHTS = "data/weights/model_weights_config.json"
_CONSTANTS = "data/constants/model_constants_config.json"


class Payload:
    """Unpickled, it makes a folder: os.mkdir is called by the unpickler itself."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self._marker),)


def parts_of(data: bytes) -> Parts:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename.partition("/")[2]: archive.read(info) for info in archive.infolist()}


def archive_of(parts: Parts, root: str = "model") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in parts.items():
            archive.writestr(f"{root}/{name}", content)
    return buffer.getvalue()


def saved(value: object, protocol: int = 2) -> bytes:
    """As torch.save writes it: a nested archive with a pickle."""
    buffer = io.BytesIO()
    torch.save(value, buffer, pickle_protocol=protocol)
    return buffer.getvalue()


def _code(marker: Path) -> str:
    return f"__import__('os').mkdir({str(marker)!r})"


def _sample_inputs(parts: Parts, marker: Path) -> None:
    parts[_SAMPLES] = saved(((Payload(marker),), {}))


def _sample_inputs_protocol_4(parts: Parts, marker: Path) -> None:
    parts[_SAMPLES] = saved(((torch.zeros(2), Payload(marker)), {}), protocol=4)


def _sample_inputs_bare_pickle(parts: Parts, marker: Path) -> None:
    parts[_SAMPLES] = pickle.dumps(Payload(marker), protocol=2)


def _archive_within_sample_inputs(parts: Parts, marker: Path) -> None:
    inner = parts_of(saved(((torch.zeros(2),), {})))
    inner["data/0"] = saved(Payload(marker))
    inner["extra/payload.pkl"] = pickle.dumps(Payload(marker))
    parts[_SAMPLES] = archive_of(inner, "archive")


def _legacy_weights(parts: Parts, marker: Path) -> None:
    parts["data/weights/model.pt"] = saved({"weight": Payload(marker)})


def _legacy_constants(parts: Parts, marker: Path) -> None:
    parts["data/constants/model.pt"] = saved({"constant": Payload(marker)})


def _pickled_weight(parts: Parts, marker: Path) -> None:
    config = json.loads(parts[_WEIGHTS])
    first = next(iter(config["config"].values()))
    first["use_pickle"] = True
    parts[f"data/weights/{first['path_name']}"] = saved(Payload(marker))
    parts[_WEIGHTS] = json.dumps(config).encode()


def _constant(kind: str, content: Callable[[Path], bytes]) -> Callable[[Parts, Path], None]:
    def change(parts: Parts, marker: Path) -> None:
        payload = {"path_name": f"{kind}_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
        parts[_CONSTANTS] = json.dumps({"config": {"c": payload}}).encode()
        parts[f"data/constants/{kind}_0"] = content(marker)

    return change


def _program(change: Callable[[dict, Path], None]) -> Callable[[Parts, Path], None]:  # type: ignore[type-arg]
    def changed(parts: Parts, marker: Path) -> None:
        document = json.loads(parts[_PROGRAM])
        change(document, marker)
        parts[_PROGRAM] = json.dumps(document).encode()

    return changed


def _shape_expression(document: dict, marker: Path) -> None:  # type: ignore[type-arg]
    graph = document["graph_module"]["graph"]
    sizes = next(value["sizes"] for value in graph["tensor_values"].values() if "as_expr" in str(value["sizes"]))
    next(size for size in sizes if "as_expr" in size)["as_expr"]["expr_str"] = _code(marker)


def _operator(document: dict, marker: Path) -> None:  # type: ignore[type-arg]
    node = document["graph_module"]["graph"]["nodes"][0]
    node["target"] = "torch.os.mkdir"
    node["inputs"] = [{"name": "", "arg": {"as_string": str(marker)}, "kind": 1}]


def _file_operator(document: dict, marker: Path) -> None:  # type: ignore[type-arg]
    node = document["graph_module"]["graph"]["nodes"][0]
    node["target"] = "torch.ops.aten.from_file.default"


def _injected_name(document: dict, marker: Path) -> None:  # type: ignore[type-arg]
    graph = document["graph_module"]["graph"]
    graph["inputs"][-1]["as_tensor"]["name"] = f"x={_code(marker)}"


def _injected_argument_name(document: dict, marker: Path) -> None:  # type: ignore[type-arg]
    signature = document["graph_module"]["module_call_graph"][0]["signature"]
    signature["forward_arg_names"][0] = f"x={_code(marker)}"


def _imported_type(document: dict, marker: Path) -> None:  # type: ignore[type-arg]
    signature = document["graph_module"]["module_call_graph"][0]["signature"]
    tree = json.loads(signature["in_spec"])
    tree[1]["type"] = "collections.defaultdict"
    tree[1]["context"] = json.dumps({"default_factory_module": "antigravity", "default_factory_name": "x"})
    signature["in_spec"] = json.dumps(tree)


def _subgraph(document: dict, marker: Path) -> None:  # type: ignore[type-arg]
    node = document["graph_module"]["graph"]["nodes"][0]
    node["inputs"][0]["arg"] = {"as_custom_obj": {"name": "x", "class_fqn": "os.mkdir"}}


def _extra(name: str) -> Callable[[Parts, Path], None]:
    def change(parts: Parts, marker: Path) -> None:
        parts[name] = pickle.dumps(Payload(marker))

    return change


HOSTILE: dict[str, Callable[[Parts, Path], None]] = {
    "sample inputs": _sample_inputs,
    "sample inputs, pickle protocol 4": _sample_inputs_protocol_4,
    "sample inputs, a bare pickle": _sample_inputs_bare_pickle,
    "an archive within the sample inputs": _archive_within_sample_inputs,
    "legacy weights": _legacy_weights,
    "legacy constants": _legacy_constants,
    "a weight to unpickle": _pickled_weight,
    "a script object": _constant("custom_obj", lambda marker: saved(Payload(marker))),
    "an opaque object": _constant("opaque_obj", lambda marker: pickle.dumps(Payload(marker))),
    "a shape expression": _program(_shape_expression),
    "an operator outside of aten": _program(_operator),
    "an operator that opens files": _program(_file_operator),
    "a name pasted into code": _program(_injected_name),
    "an argument name pasted into code": _program(_injected_argument_name),
    "a type to import": _program(_imported_type),
    "an object as value": _program(_subgraph),
    "an extra file": _extra("extra/notes.pkl"),
    "a native library": _extra("data/aotinductor/model/model.so"),
    "a second program": _extra("models/other.json"),
    "the format of torch 2.7": _extra("serialized_state_dict.pt"),
}
# With torch's own loader these run at once: they prove that the payloads are live.
LIVE = ("sample inputs", "legacy constants", "a weight to unpickle", "an opaque object", "a shape expression")
