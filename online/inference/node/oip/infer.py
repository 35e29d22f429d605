"""One inference request, by whichever transport: the version it is for, its rows to the worker, the answer."""

import asyncio
from collections.abc import Sequence

import numpy as np

from online.inference.node.oip.errors import DeadlinePassed, Failed, Invalid, NotFound, Unavailable
from online.inference.node.oip.inputs import Group, program_groups
from online.inference.node.oip.messages import InferAnswer, InferRequest, Output, RequestedOutput
from online.inference.node.oip.tensors import shown
from online.inference.node.repository import Repository, UnknownModel, UnknownVersion
from online.inference.node.version import Version
from online.tracing.context import TraceContext
from online.wire_client.asking import ReplicaGone, ReplicaRefused
from schemas import wire
from schemas.http import ProblemCode
from schemas.manifest import Manifest
from schemas.output_kinds import Output as ModelOutput
from schemas.outputs import Float32Array, calibrate_columns, finite_rows

_LONGEST_S = 3600.0  # the wire's own limit is a little more
# Above it, decoding and transforming leave the event loop, which has health to answer.
_LARGE_BYTES = 64 << 10

_INVALID = (ProblemCode.INVALID_REQUEST, ProblemCode.INVALID_FEATURES)
_NOT_NOW = (ProblemCode.OVERLOADED, ProblemCode.NOT_READY, ProblemCode.LIVE_UNAVAILABLE)


def find(repository: Repository, model: str, version: str) -> Version:
    """`version` may be empty. Raises NotFound."""
    try:
        return repository.find(model, version or None)
    except (UnknownModel, UnknownVersion) as error:
        raise NotFound(str(error)) from None


def known_manifest(version: Version) -> Manifest:
    """Raises Unavailable where the worker has not read it yet."""
    if version.manifest is None:
        raise Unavailable(_not_ready(version))
    return version.manifest


async def infer(
    version: Version,
    request: InferRequest,
    default_timeout_s: float,
    left_s: float | None = None,
    trace: TraceContext | None = None,
) -> InferAnswer:
    """Cancelling the task withdraws the rows.

    Args:
        left_s: until the transport's own deadline, where it has one.
        trace: what the worker's spans are part of.

    Raises:
        ProtocolError.
    """
    manifest, transform = version.manifest, version.transform
    if manifest is None or transform is None or not version.is_ready:
        raise Unavailable(_not_ready(version))
    outputs = _requested(manifest, request.outputs)
    timeout_s = _timeout_s(request, default_timeout_s)
    expired: Unavailable = Unavailable("Request timeout expired")
    if left_s is not None and left_s < timeout_s:
        timeout_s, expired = left_s, DeadlinePassed("the deadline of the call passed")
    deadline_s = asyncio.get_running_loop().time() + timeout_s
    if _bytes(request) > _LARGE_BYTES:
        groups = await asyncio.to_thread(program_groups, manifest, transform, request.inputs)
    else:
        groups = program_groups(manifest, transform, request.inputs)
    try:
        raw = await _run(version, groups, deadline_s, request.parameters.wire_priority, trace)
    except TimeoutError:
        raise expired from None
    values = _answered(manifest, raw, request.parameters.raw_outputs)
    answers = [Output(name, np.ascontiguousarray(values[:, place])) for name, place in outputs]
    return InferAnswer(manifest.name, manifest.version, request.request_id, answers)


def _bytes(request: InferRequest) -> int:
    values = (given.values for given in request.inputs)
    return sum(sum(map(len, some)) if isinstance(some, list) else some.nbytes for some in values)


async def _run(
    version: Version, groups: Sequence[Group], deadline_s: float, priority: int, trace: TraceContext | None
) -> Float32Array:
    """(rows, K) raw outputs, rows in the request's order. Raises ProtocolError, TimeoutError."""
    if len(groups) == 1:
        return await _run_group(version, groups[0], deadline_s, priority, trace)
    tasks = [asyncio.create_task(_run_group(version, group, deadline_s, priority, trace)) for group in groups]
    try:
        found = await asyncio.gather(*tasks)
    finally:
        for task in tasks:  # where one fails, the others are of no more use
            task.cancel()
    places = np.concatenate([group.places for group in groups if group.places is not None])
    raw = np.empty((len(places), found[0].shape[1]), np.float32)
    raw[places] = np.concatenate(found)
    return raw


async def _run_group(
    version: Version, group: Group, deadline_s: float, priority: int, trace: TraceContext | None
) -> Float32Array:
    try:
        result = await version.run(group.tensors, deadline_s, priority, trace)
    except ReplicaGone as error:
        raise Unavailable(f"the worker has gone: {error}") from None
    except ReplicaRefused as error:
        raise _refused(error.failure) from None
    if len(result.outputs) != len(group.tensors[0]):
        raise Failed(f"the model gave {len(result.outputs)} rows for {len(group.tensors[0])}")
    return result.outputs


def _refused(failure: wire.Failure) -> Exception:
    if failure.code == ProblemCode.DEADLINE_EXCEEDED:
        return TimeoutError()
    if failure.code in _NOT_NOW:
        return Unavailable(failure.message, failure.retry_after_ms / 1e3 or 1.0)
    return (Invalid if failure.code in _INVALID else Failed)(failure.message)


def _timeout_s(request: InferRequest, default_timeout_s: float) -> float:
    """A request may ask for more time than the default, as well as for less."""
    timeout_us = request.parameters.timeout_us
    return min(timeout_us / 1e6, _LONGEST_S) if timeout_us else default_timeout_s


def _requested(manifest: Manifest, requested: list[RequestedOutput]) -> list[tuple[str, int | slice]]:
    """Name and column or columns of each output, in the order asked for. Raises Invalid."""
    places: dict[str, int | slice] = {
        output.name: columns.start if isinstance(output, ModelOutput) else columns
        for output, columns, _ in manifest.output.spans
    }
    if not requested:
        return list(places.items())
    if len({output.name for output in requested}) != len(requested):
        raise Invalid("an output is requested twice")
    for output in requested:
        if output.name not in places:
            raise Invalid(f"unknown output {shown(output.name)}; known are {', '.join(places)}")
    return [(output.name, places[output.name]) for output in requested]


def _answered(manifest: Manifest, raw: Float32Array, wants_raw: bool) -> Float32Array:
    """(rows, N) as they are answered. Raises Failed: another number of outputs, or one that is not finite."""
    try:
        calibrated = calibrate_columns(manifest.output, raw)
    except ValueError as error:
        raise Failed(str(error)) from None
    values = raw if wants_raw else calibrated
    good = finite_rows(values)
    if not good.all():
        row = int(np.argmin(good))
        column = int(np.argmin(np.isfinite(values[row])))
        name = next(output.name for output, columns, _ in manifest.output.spans if column < columns.stop)
        raise Failed(f"the model's output is not finite: {name} of row {row}")
    return values


def _not_ready(version: Version) -> str:
    reason = f": {version.reason}" if version.reason else ""
    return f"model {version.model or 'unknown'} version {version.name or '?'} is {version.state}{reason}"
