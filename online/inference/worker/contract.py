"""What a request must look like to be run by the bundle of this worker. Pure."""

import numpy as np

from schemas import wire
from schemas.http import ProblemCode
from schemas.manifest import Manifest


class Refused(Exception):
    """A request that is answered with a failure, alone; `code` is stable, the message is for its sender."""

    def __init__(self, code: ProblemCode, message: str, retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.code, self.message, self.retry_after_ms = code, message, retry_after_ms


class Contract:
    """Of one bundle: its tag, and name, dtype and width of its inputs in wire order."""

    def __init__(self, manifest: Manifest, digest: str) -> None:
        self._tag = wire.version_tag(digest)
        self._version = f"{manifest.name} {manifest.version}"
        self._inputs = [(item.name, np.dtype(item.dtype), item.width) for item in manifest.inputs]

    def check(self, request: wire.Request) -> None:
        """Raises Refused: meant for another bundle, an unknown priority, or tensors the model does not take."""
        if request.version_tag != self._tag:
            raise Refused(
                ProblemCode.NOT_READY,
                f"bundle {request.version_tag.hex()} is not served here, but {self._tag.hex()} ({self._version})",
            )
        if request.priority > 1:
            raise Refused(ProblemCode.INVALID_REQUEST, f"priority {request.priority}: 0 and 1 are known")
        if len(request.tensors) != len(self._inputs):
            raise Refused(
                ProblemCode.INVALID_FEATURES, f"{len(request.tensors)} tensors for {len(self._inputs)} inputs"
            )
        rows = len(request.tensors[0])
        if rows == 0:
            raise Refused(ProblemCode.INVALID_REQUEST, "a request without rows")
        for tensor, (name, dtype, width) in zip(request.tensors, self._inputs, strict=True):
            if tensor.dtype != dtype or tensor.shape != (rows, width):
                raise Refused(
                    ProblemCode.INVALID_FEATURES,
                    f"input {name} must be ({rows}, {width}) {dtype}, not {tensor.shape} {tensor.dtype}",
                )
