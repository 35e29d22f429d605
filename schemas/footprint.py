"""How much memory a bundle's program will take, read from its archive before anything is loaded.

Weights are the sizes of their entries. Activations are the largest sum of tensors that are alive at the same time
while the graph runs once at the largest batch: each node's outputs from the node on until their last use, views
counted with what they look at. Workspaces of kernels and the allocator's slack come on top. Standard library only.
"""

import ast
import io
import json
import operator
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

_PAYLOAD = re.compile(r"[^/]+/data/(weights|constants)/(weight|tensor)_[0-9]+\Z")
_PROGRAM = re.compile(r"[^/]+/models/model\.json\Z")
# Codes of torch.export's schema for types of elements, and their bytes.
_ITEM_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 2, 7: 4, 8: 8, 9: 4, 10: 8, 11: 16, 12: 1, 13: 2}
_UNKNOWN_ITEM_BYTES = 8
_VIEWS = re.compile(
    r"torch\.ops\.aten\.(view|reshape|select|slice|expand|permute|transpose|t|unsqueeze|squeeze|flatten|unflatten"
    r"|detach|alias|split|chunk|unbind|narrow)\.|_operator\.getitem\Z"
)
_CALLS: Mapping[str, Callable[..., float]] = {
    "Integer": lambda value: value,
    "Float": lambda value, *_: float(value),
    "Rational": lambda over, under: over / under,
    "Add": lambda *terms: sum(terms),
    "Mul": lambda *factors: reduce(operator.mul, factors, 1),
    "Max": max,
    "Min": min,
    "FloorDiv": lambda over, under: over // max(1, under),
    "CleanDiv": lambda over, under: over // max(1, under),
    "CeilDiv": lambda over, under: -(-over // max(1, under)),
    "Mod": lambda over, under: over % max(1, under),
    "Identity": lambda value: value,
}


class FootprintError(ValueError):
    """An archive whose memory cannot be told; the message says why."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Of one copy of the program at its largest batch."""

    weights_bytes: int
    activations_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.activations_bytes


def footprint(archive: bytes, max_rows: int) -> Footprint:
    """Of a `model.pt2` as `torch.export.save` writes it. Raises FootprintError."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as entries:
            weights = sum(info.file_size for info in entries.infolist() if _PAYLOAD.match(info.filename))
            (name,) = [name for name in entries.namelist() if _PROGRAM.match(name)]
            program = json.loads(entries.read(name))
        return Footprint(weights, _peak_bytes(program, max_rows))
    except (zipfile.BadZipFile, RecursionError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise FootprintError(f"the program's memory cannot be told: {type(error).__name__}: {error}") from None


def _peak_bytes(program: Mapping[str, Any], max_rows: int) -> int:
    graph = program["graph_module"]["graph"]
    symbols = {name: bounds["max_val"] or 1 for name, bounds in program["range_constraints"].items()}
    # The model's own inputs come last, and their first dimension is the batch.
    for given in reversed(graph["inputs"]):
        first = graph["tensor_values"][given["as_tensor"]["name"]]["sizes"][0]
        if (symbol := _symbol(first)) is not None:
            symbols[symbol] = max_rows
            break
    sizes = {name: _tensor_bytes(value, symbols) for name, value in graph["tensor_values"].items()}
    whole = {name: name for name in sizes}  # what a view looks at
    last_use: dict[str, int] = {}
    made: list[list[str]] = []
    for at, node in enumerate(graph["nodes"]):
        used = [whole.get(name, name) for name in _tensors(node["inputs"])]
        new = list(_tensors(node["outputs"]))
        if used and _VIEWS.match(node["target"]):
            whole.update(dict.fromkeys(new, used[0]))
            new = []
        made.append(new)
        last_use.update(dict.fromkeys([*used, *new], at))
    last_use.update(dict.fromkeys((whole.get(name, name) for name in _tensors(graph["outputs"])), len(made)))
    return _sweep(made, last_use, sizes)


def _sweep(made: list[list[str]], last_use: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    alive = peak = 0
    ending: dict[int, int] = {}
    for at, names in enumerate(made):
        for name in names:
            alive += sizes[name]
            ending[last_use[name]] = ending.get(last_use[name], 0) + sizes[name]
        peak = max(peak, alive)
        alive -= ending.pop(at, 0)
    return peak


def _tensors(value: object) -> Iterator[str]:
    """Names of all tensors in an argument, however nested."""
    if isinstance(value, dict):
        if isinstance(named := value.get("as_tensor"), dict):
            yield named["name"]
        for inner in value.values():
            yield from _tensors(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _tensors(inner)


def _tensor_bytes(value: Mapping[str, Any], symbols: Mapping[str, int]) -> int:
    count = 1.0
    for size in value["sizes"]:
        count *= _extent(size, symbols)
    return round(count) * _ITEM_BYTES.get(value["dtype"], _UNKNOWN_ITEM_BYTES)


def _extent(size: Mapping[str, Any], symbols: Mapping[str, int]) -> float:
    if "as_int" in size:
        return int(size["as_int"])
    return _value(ast.parse(size["as_expr"]["expr_str"], mode="eval").body, symbols)


def _symbol(size: Mapping[str, Any]) -> str | None:
    """The name of a size that is one symbol."""
    if "as_expr" not in size:
        return None
    node = ast.parse(size["as_expr"]["expr_str"], mode="eval").body
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Symbol":
        return str(ast.literal_eval(node.args[0]))
    return node.id if isinstance(node, ast.Name) else None


def _value(node: ast.expr, symbols: Mapping[str, int]) -> float:
    """Of a size's expression, as sympy writes it; by hand, since nothing of an archive is ever evaluated."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            return symbols[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, symbols)
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=name), *_]):
            return symbols[str(name)]
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _CALLS:
            return _CALLS[name](*(_value(argument, symbols) for argument in arguments))
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() as how, right=right):
            return _OPERATORS[type(how)](_value(left, symbols), _value(right, symbols))
    raise ValueError(f"an unknown expression for a size: {ast.unparse(node)[:80]}")


_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
