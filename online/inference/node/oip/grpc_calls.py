"""The calls of `inference.GRPCInferenceService`: each takes a message, and gives one or raises ProtocolError."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import grpc
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError

from online.inference.node.oip import admin, describe
from online.inference.node.oip import open_inference_pb2 as pb
from online.inference.node.oip.errors import Invalid, NotFound, ProtocolError
from online.inference.node.oip.grpc_codec import infer_message, parse_infer, plain
from online.inference.node.oip.infer import find, infer, known_manifest
from online.inference.node.oip.tracing import trace_of_metadata
from online.inference.node.repository import Repository
from online.inference.node.settings import InferenceSettings
from online.inference.node.version import Version

Context = grpc.aio.ServicerContext[bytes, bytes]

_LARGE_BYTES = 256 << 10  # above it a message is parsed in a thread
_STREAM_DEPTH = 64  # requests of one stream that are worked on at a time


class Calls:
    """By the names that the service gives them in snake case; `context` is gRPC's."""

    def __init__(
        self, repository: Repository, settings: InferenceSettings, is_draining: Callable[[], bool]
    ) -> None:
        self._repository, self._settings, self._is_draining = repository, settings, is_draining

    async def server_live(self, request: pb.ServerLiveRequest, context: Context) -> pb.ServerLiveResponse:
        return pb.ServerLiveResponse(live=True)

    async def server_ready(self, request: pb.ServerReadyRequest, context: Context) -> pb.ServerReadyResponse:
        ready = describe.is_server_ready(self._repository.versions, self._is_draining())
        return pb.ServerReadyResponse(ready=ready)

    async def model_ready(self, request: pb.ModelReadyRequest, context: Context) -> pb.ModelReadyResponse:
        """As Triton's, which is not ready for a model that it does not know, and no error."""
        with suppress(NotFound):
            return pb.ModelReadyResponse(ready=find(self._repository, request.name, request.version).is_ready)
        return pb.ModelReadyResponse(ready=False)

    async def server_metadata(
        self, request: pb.ServerMetadataRequest, context: Context
    ) -> pb.ServerMetadataResponse:
        return ParseDict(describe.server(), pb.ServerMetadataResponse())

    async def model_metadata(self, request: pb.ModelMetadataRequest, context: Context) -> pb.ModelMetadataResponse:
        manifest = known_manifest(find(self._repository, request.name, request.version))
        versions = describe.ready_versions(self._repository.versions, manifest.name)
        # The message has no field for the features.
        return ParseDict(
            describe.model(manifest, versions), pb.ModelMetadataResponse(), ignore_unknown_fields=True
        )

    async def model_config(self, request: pb.ModelConfigRequest, context: Context) -> pb.ModelConfigResponse:
        version = find(self._repository, request.name, request.version)
        config = describe.config(known_manifest(version), version.report.max_batch_rows)
        return ParseDict({"config": config}, pb.ModelConfigResponse())

    async def model_statistics(
        self, request: pb.ModelStatisticsRequest, context: Context
    ) -> pb.ModelStatisticsResponse:
        versions: list[Version] = [version for version in self._repository.versions if version.model]
        if request.name:
            versions = [find(self._repository, request.name, request.version)]
        documents = [describe.statistics(version) for version in versions]
        return ParseDict({"model_stats": documents}, pb.ModelStatisticsResponse())

    async def repository_index(
        self, request: pb.RepositoryIndexRequest, context: Context
    ) -> pb.RepositoryIndexResponse:
        models = describe.index(self._repository.versions, request.ready)
        return ParseDict({"models": models}, pb.RepositoryIndexResponse())

    async def repository_model_load(
        self, request: pb.RepositoryModelLoadRequest, context: Context
    ) -> pb.RepositoryModelLoadResponse:
        self._check_token(context)
        await admin.load(self._repository, request.model_name, plain(request.parameters))
        return pb.RepositoryModelLoadResponse()

    async def repository_model_unload(
        self, request: pb.RepositoryModelUnloadRequest, context: Context
    ) -> pb.RepositoryModelUnloadResponse:
        self._check_token(context)
        await admin.unload(self._repository, request.model_name, plain(request.parameters))
        return pb.RepositoryModelUnloadResponse()

    async def model_infer(self, request: pb.ModelInferRequest, context: Context) -> pb.ModelInferResponse:
        """gRPC cancels the task when the client does, which withdraws the rows."""
        version = find(self._repository, request.model_name, request.model_version)
        if request.ByteSize() > _LARGE_BYTES:
            parsed = await asyncio.to_thread(parse_infer, request)
        else:
            parsed = parse_infer(request)
        timeout_s = self._settings.default_timeout_s
        trace = trace_of_metadata(context.invocation_metadata()) if self._settings.otlp_url else None
        return infer_message(await infer(version, parsed, timeout_s, context.time_remaining(), trace))

    async def model_stream_infer(self, requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        """One answer each, in the order of the requests, of which several are worked on at a time."""
        started: asyncio.Queue[asyncio.Task[bytes] | None] = asyncio.Queue(_STREAM_DEPTH)
        tasks: set[asyncio.Task[object]] = set()

        async def read() -> None:
            async for data in requests:
                task = asyncio.create_task(self._streamed(data, context))
                tasks.add(task)
                await started.put(task)
            await started.put(None)

        tasks.add(asyncio.create_task(read()))
        try:
            while (task := await started.get()) is not None:
                yield await task
                tasks.discard(task)
        finally:
            for left in tasks:
                left.cancel()

    async def _streamed(self, data: bytes, context: Context) -> bytes:
        request = pb.ModelInferRequest()
        try:
            request.ParseFromString(data)
            answer = pb.ModelStreamInferResponse(infer_response=await self.model_infer(request, context))
        except DecodeError:
            answer = _error(Invalid("not a ModelInferRequest"), "")
        except ProtocolError as error:
            answer = _error(error, request.id)
        return answer.SerializeToString()

    def _check_token(self, context: Context) -> None:
        found = {str(key): value for key, value in context.invocation_metadata() or ()}.get("authorization")
        given = found.decode("latin-1") if isinstance(found, bytes) else found
        admin.check_token(self._settings.admin_token, given)


def _error(error: ProtocolError, request_id: str) -> pb.ModelStreamInferResponse:
    named = pb.ModelInferResponse(id=request_id)
    return pb.ModelStreamInferResponse(error_message=error.message, infer_response=named)
