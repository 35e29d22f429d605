"""What a request must look like to be run by the bundle of this worker. Pure."""

from schemas import wire
from schemas.http import ProblemCode
from schemas.manifest import Manifest
from schemas.shapes import InputShapes


class Refused(Exception):
    """A request that is answered with a failure, alone; `code` is stable, the message is for its sender."""

    def __init__(self, code: ProblemCode, message: str, retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.code, self.message, self.retry_after_ms = code, message, retry_after_ms


class Contract:
    """Of one bundle: its tag, and the shapes of its inputs in wire order."""

    def __init__(self, manifest: Manifest, digest: str) -> None:
        self._tag = wire.version_tag(digest)
        self._version = f"{manifest.name} {manifest.version}"
        self._shapes = InputShapes(manifest)

    def check(self, request: wire.Request) -> None:
        """Raises Refused: meant for another bundle, an unknown priority, or tensors the model does not take."""
        if request.version_tag != self._tag:
            raise Refused(
                ProblemCode.NOT_READY,
                f"bundle {request.version_tag.hex()} is not served here, but {self._tag.hex()} ({self._version})",
            )
        if request.priority > 1:
            raise Refused(ProblemCode.INVALID_REQUEST, f"priority {request.priority}: 0 and 1 are known")
        wanted = len(self._shapes.names)
        if len(request.tensors) != wanted:
            raise Refused(ProblemCode.INVALID_FEATURES, f"{len(request.tensors)} tensors for {wanted} inputs")
        rows = len(request.tensors[0])
        if rows == 0:
            raise Refused(ProblemCode.INVALID_REQUEST, "a request without rows")
        if (problem := self._shapes.problem(request.tensors, rows)) is not None:
            raise Refused(ProblemCode.INVALID_FEATURES, problem)
