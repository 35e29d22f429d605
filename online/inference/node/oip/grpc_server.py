"""The gRPC server: `inference.GRPCInferenceService` put together from its calls, in the node's own event loop."""

import logging
from collections.abc import Awaitable, Callable
from math import ceil
from typing import Any, Self

import grpc
from google.protobuf.message import DecodeError, Message

from online.inference.node.oip import open_inference_pb2 as pb
from online.inference.node.oip.errors import Failed, Invalid, ProtocolError
from online.inference.node.oip.grpc_calls import Calls, Context
from online.inference.node.repository import Repository
from online.inference.node.settings import InferenceSettings

log = logging.getLogger(__name__)

SERVICE = "inference.GRPCInferenceService"
_GRACE_S = 1.0
_ENVELOPE_BYTES = 64 << 10  # of an answer, beside its tensors


class GrpcServer:
    """Use as `async with`; `port` is known inside. Raises OSError where it cannot listen."""

    def __init__(
        self, repository: Repository, settings: InferenceSettings, is_draining: Callable[[], bool]
    ) -> None:
        self._calls, self._settings = Calls(repository, settings, is_draining), settings
        self.port = 0

    async def __aenter__(self) -> Self:
        limit = self._settings.max_body_bytes
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", limit),
                ("grpc.max_send_message_length", limit + _ENVELOPE_BYTES),
                # Else a second node would listen on the same port, and each get half of the calls.
                ("grpc.so_reuseport", 0),
            ]
        )
        self._server.add_generic_rpc_handlers((_handler(self._calls),))
        host = self._settings.grpc_host
        address = f"[{host}]:{self._settings.grpc_port}" if ":" in host else f"{host}:{self._settings.grpc_port}"
        try:
            self.port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"gRPC cannot listen on {address}: {error}") from None
        await self._server.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """New calls are refused, those in flight have a moment to end."""
        await self._server.stop(_GRACE_S)


def _handler(calls: Calls) -> grpc.GenericRpcHandler:
    unary: dict[str, tuple[Any, type[Message]]] = {
        "ServerLive": (calls.server_live, pb.ServerLiveRequest),
        "ServerReady": (calls.server_ready, pb.ServerReadyRequest),
        "ModelReady": (calls.model_ready, pb.ModelReadyRequest),
        "ServerMetadata": (calls.server_metadata, pb.ServerMetadataRequest),
        "ModelMetadata": (calls.model_metadata, pb.ModelMetadataRequest),
        "ModelConfig": (calls.model_config, pb.ModelConfigRequest),
        "ModelStatistics": (calls.model_statistics, pb.ModelStatisticsRequest),
        "ModelInfer": (calls.model_infer, pb.ModelInferRequest),
        "RepositoryIndex": (calls.repository_index, pb.RepositoryIndexRequest),
        "RepositoryModelLoad": (calls.repository_model_load, pb.RepositoryModelLoadRequest),
        "RepositoryModelUnload": (calls.repository_model_unload, pb.RepositoryModelUnloadRequest),
    }
    handlers: dict[str, Any] = {
        name: grpc.unary_unary_rpc_method_handler(_unary(call, message)) for name, (call, message) in unary.items()
    }
    handlers["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(calls.model_stream_infer)
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def _unary(
    call: Callable[[Any, Context], Awaitable[Message]], message: type[Message]
) -> Callable[[bytes, Context], Awaitable[bytes]]:
    """Parses here, not in gRPC's own hook, which would report the caller's broken bytes as our failure."""

    async def handle(data: bytes, context: Context) -> bytes:
        found: ProtocolError
        try:
            try:
                request = message.FromString(data)
            except DecodeError:
                raise Invalid(f"not a {message.DESCRIPTOR.name}") from None
            return (await call(request, context)).SerializeToString()
        except ProtocolError as error:
            found = error
        except Exception:
            log.exception("a call failed", extra={"call": message.DESCRIPTOR.name})
            found = Failed("internal error")
        await context.abort(grpc.StatusCode[found.grpc_status], found.message, _retry(found))
        raise AssertionError("abort raises")

    return handle


def _retry(error: ProtocolError) -> tuple[tuple[str, str], ...]:
    if error.retry_after_s is None:
        return ()
    return (
        ("retry-after", str(max(1, ceil(error.retry_after_s)))),
        ("grpc-retry-pushback-ms", str(max(1, round(1e3 * error.retry_after_s)))),
    )
