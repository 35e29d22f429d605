"""The JSON documents inside a `model.pt2`: what of them may reach torch's deserialiser.

torch resolves operator names by `getattr` from the `torch` module (`torch.os.system` resolves), evaluates shape
expressions with `sympify`, imports modules named by a tree specification, and pastes names into generated code.
Each of these is held to an allow-list here; stack traces and other metadata, which only debugging reads, are
dropped.
Used by `archive.py`; standard library only.
"""

import ast
import json
import re
from typing import Any

# aten operators work on tensors; the few of them that take a path or an object are named below.
_ATEN = re.compile(r"torch\.ops\.aten\.(?P<name>[a-z_][a-z0-9_]*)\.[A-Za-z_][A-Za-z0-9_]*\Z")
_REFUSED_ATEN = frozenset({"from_file", "save", "load", "warn"})
_SYMBOLIC = re.compile(
    r"(_operator\.(add|sub|mul|floordiv|truediv|mod|neg|pos|abs|eq|ne|lt|le|gt|ge|and_|or_|not_|getitem|pow)"
    r"|math\.(ceil|floor|trunc|sqrt)|torch\.sym_(int|float|max|min|not|ite|sum))\Z"
)
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)?\Z")
_PLAIN = re.compile(r"[A-Za-z0-9_.:+-]{0,300}\Z")
_PAYLOAD = re.compile(r"(weight|tensor)_[0-9]{1,9}\Z")
_FORBIDDEN_KEYS = frozenset({"as_custom_obj", "as_operator", "as_graph", "as_opaque_obj"})

# Read by debuggers only, and guards, which torch would compile: the caller checks shapes itself.
_DROPPED = frozenset({"metadata", "guards_code"})

_SYMBOL = re.compile(r"[a-z]{1,10}[0-9]{1,9}\Z")
_EXPRESSION_NAMES = frozenset(
    {"Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Max", "Min", "And", "Or", "Not", "Eq", "Ne"}
    | {"Equality", "Unequality", "LessThan", "GreaterThan", "StrictLessThan", "StrictGreaterThan", "Identity"}
    | {"FloorDiv", "ModularIndexing", "Where", "PythonMod", "Mod", "CleanDiv", "CeilToInt", "FloorToInt"}
    | {"CeilDiv", "LShift", "RShift", "FloatTrueDiv", "IntTrueDiv", "TruncToFloat", "TruncToInt", "RoundToInt"}
    | {"RoundDecimal", "ToFloat"}
)
_EXPRESSION_NODES = (
    *(ast.Expression, ast.Call, ast.keyword, ast.Name, ast.Load, ast.Constant),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Div, ast.Mod, ast.UnaryOp, ast.USub),
    *(ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
)
_MAX_EXPRESSION = 1000
_TREE_TYPES = frozenset({None, "builtins.tuple", "builtins.list", "builtins.dict"})


class ProgramError(ValueError):
    """A document that may not be deserialised; the message says where and why."""


def checked_program(document: bytes) -> bytes:
    """The exported program's JSON, without metadata. Raises ProgramError."""
    return _dump(_checked(_parse(document, "models/model.json"), "program"))


def checked_payloads(document: bytes, name: str) -> bytes:
    """A weights or constants index, whose payloads must all be plain tensors. Raises ProgramError."""
    parsed = _parse(document, name)
    config = parsed.get("config")
    if not isinstance(config, dict):
        raise ProgramError(f"{name} has no config")
    for key, payload in config.items():
        if not isinstance(payload, dict) or payload.get("use_pickle") is not False:
            raise ProgramError(f"{name}: {key!r} asks to be unpickled")
        if not _PAYLOAD.match(str(payload.get("path_name"))):
            raise ProgramError(f"{name}: {key!r} is read from {payload.get('path_name')!r}, which is no tensor")
    return _dump(_checked(parsed, name))


def _parse(document: bytes, name: str) -> dict[str, Any]:
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise ProgramError(f"{name} is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise ProgramError(f"{name} is not a JSON object")
    return parsed


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=False).encode()


def _checked(value: Any, where: str) -> Any:
    """A copy of `value` in which every text has been held to the rule of its key."""
    if isinstance(value, dict):
        return {key: _checked_member(value, key, where) for key in value}
    if isinstance(value, list):
        return [_checked(item, where) for item in value]
    if isinstance(value, str) and not _PLAIN.match(value):
        raise ProgramError(f"{where} holds the text {value[:80]!r}, which no program of tensors needs")
    return value


def _checked_member(parent: dict[str, Any], key: str, where: str) -> Any:
    value, place = parent[key], f"{where}.{key}"
    if not _PLAIN.match(key):
        raise ProgramError(f"{where} has a member named {key[:80]!r}")
    if key in _DROPPED:
        return type(value)()
    if key in _FORBIDDEN_KEYS and value is not None:
        raise ProgramError(f"{place}: objects, operators as values and subgraphs are not loaded")
    if isinstance(value, str):
        _check_text(parent, key, value, place)
        return value
    return _checked(value, place)


def _check_text(parent: dict[str, Any], key: str, value: str, place: str) -> None:
    if key == "target" and "inputs" in parent and "outputs" in parent:
        _check_operator(value)
    elif key == "expr_str":
        _check_expression(value)
    elif key in ("in_spec", "out_spec"):
        _check_tree(value, place)
    elif key == "name" and not _NAME.match(value):
        raise ProgramError(f"{place} is {value[:80]!r}, which is no name")
    elif not _PLAIN.match(value):
        raise ProgramError(f"{place} is {value[:80]!r}, which no program of tensors needs")


def _check_operator(target: str) -> None:
    aten = _ATEN.match(target)
    if aten is not None and aten["name"] not in _REFUSED_ATEN:
        return
    if not _SYMBOLIC.match(target):
        raise ProgramError(f"the graph calls {target[:80]!r}: only operators of torch.ops.aten are loaded")


def _check_expression(text: str) -> None:
    refusal = ProgramError(f"the shape expression {text[:80]!r} is more than arithmetic on sizes")
    if len(text) > _MAX_EXPRESSION:
        raise refusal
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, ValueError, RecursionError):
        raise refusal from None
    for node in nodes:
        if not isinstance(node, _EXPRESSION_NODES):
            raise refusal
        if isinstance(node, ast.Name) and not (node.id in _EXPRESSION_NAMES or _SYMBOL.match(node.id)):
            raise refusal
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Name):
            raise refusal
        if isinstance(node, ast.Constant) and not _is_plain_constant(node.value):
            raise refusal


def _is_plain_constant(value: object) -> bool:
    # Text is the name of a symbol, or a float in digits; it is parsed again, so it stays within these patterns.
    if isinstance(value, str):
        return bool(_SYMBOL.match(value) or re.match(r"-?[0-9]{1,20}(\.[0-9]{1,20})?\Z", value))
    return isinstance(value, (bool, int, float))


def _check_tree(text: str, place: str) -> None:
    try:
        parsed = json.loads(text)
    except ValueError:
        raise ProgramError(f"{place} is not JSON") from None
    # [protocol, node], as torch writes it; the empty text stands for "no specification".
    if not isinstance(parsed, list) or len(parsed) != 2:
        raise ProgramError(f"{place} is no tree specification")
    _check_tree_node(parsed[1], place)


def _check_tree_node(node: Any, place: str) -> None:
    if not isinstance(node, dict) or node.get("type") not in _TREE_TYPES:
        raise ProgramError(f"{place} names the type {node.get('type') if isinstance(node, dict) else node!r}")
    if node.get("context") not in (None, "null", "[]"):
        raise ProgramError(f"{place} has a dictionary with keys: inputs are tensors by position")
    for child in node.get("children_spec", ()):
        _check_tree_node(child, place)
