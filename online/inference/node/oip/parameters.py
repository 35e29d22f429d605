"""Parameters of a request, of its inputs and of its outputs: what is understood, and what is refused in words.

Parameters that nobody here knows are ignored, as the protocol has it. Those that would change the meaning of an
answer (sequences, classification, shared memory) are refused, not ignored.
"""

from collections.abc import Mapping
from typing import Any

from online.inference.node.oip.errors import Invalid
from online.inference.node.oip.messages import Parameters
from online.inference.node.oip.tensors import shown

_SEQUENCE = ("sequence_id", "sequence_start", "sequence_end")
# Triton counts priorities from 1, the highest, and takes 0 for the default, which here is the highest too.
_HIGHEST = (0, 1)


def parse_parameters(given: Mapping[str, Any]) -> Parameters:
    """Raises Invalid."""
    if not given:
        return Parameters()
    for name in _SEQUENCE:
        if given.get(name):
            raise Invalid(f"parameter {name}: sequences are not supported, every request stands alone")
    priority = _whole(given, "priority")
    return Parameters(
        timeout_us=_whole(given, "timeout"),
        wire_priority=0 if priority in _HIGHEST else 1,
        raw_outputs=flag(given, "raw_outputs", "the request"),
        binary_outputs=flag(given, "binary_data_output", "the request"),
    )


def check_tensor_parameters(given: Mapping[str, Any], what: str) -> None:
    """Of an input or an output. Raises Invalid."""
    for name in given:
        if name.startswith("shared_memory"):
            raise Invalid(f"{what}: parameter {shown(name)}: shared memory is not supported, send the data")
    if given.get("classification"):
        raise Invalid(f"{what}: parameter classification is not supported; the outputs themselves are answered")


def flag(given: Mapping[str, Any], name: str, what: str) -> bool:
    """False where it is not given. Raises Invalid."""
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise Invalid(f"{what}: parameter {name} must be true or false, not {shown(value)}")
    return value


def _whole(given: Mapping[str, Any], name: str) -> int:
    value = given.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Invalid(f"parameter {name} must be a whole number from 0, not {shown(value)}")
    return value
