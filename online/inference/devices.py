"""The names of devices: `cpu`, `cuda:N`, and `emulated:τ0,α` in milliseconds. No torch, since the node uses it."""

import re
from dataclasses import dataclass

from schemas.capacity import BatchTime

_CUDA = re.compile(r"cuda:[0-9]{1,3}\Z")
_EMULATED = re.compile(r"emulated:([0-9.]+),([0-9.]+)\Z")
_MAX_EMULATED_MS = 10_000.0


@dataclass(frozen=True, slots=True)
class Device:
    """`name` is the setting, `torch_name` where the program runs, `emulated` how long its batches shall take."""

    name: str
    torch_name: str
    emulated: BatchTime | None = None


def parse_device(name: str) -> Device:
    """Raises ValueError where `name` is no device."""
    if name == "cpu" or _CUDA.match(name):
        return Device(name, name)
    if (match := _EMULATED.match(name)) is not None:
        try:
            tau0_ms, alpha_ms = float(match[1]), float(match[2])
        except ValueError:
            raise _refusal(name) from None
        if tau0_ms + alpha_ms > 0 and max(tau0_ms, alpha_ms) <= _MAX_EMULATED_MS:
            return Device(name, "cpu", BatchTime(tau0_ms, alpha_ms))
    raise _refusal(name)


def _refusal(name: str) -> ValueError:
    return ValueError(f"{name!r} is no device: cpu, cuda:N, or emulated:TAU0_MS,ALPHA_MS")
