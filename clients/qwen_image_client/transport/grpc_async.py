"""gRPC on asyncio: the twin of grpc_sync."""

from collections.abc import AsyncGenerator
from functools import cached_property
from typing import Any

import grpc  # type: ignore[import-untyped]
import grpc.aio  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2, service_pb2_grpc

from qwen_image_client.call import Call, Tensors
from qwen_image_client.transport.base import Connection
from qwen_image_client.transport.grpc_codec import (
    CHANNEL_OPTIONS,
    credentials,
    error_from_rpc,
    infer_request,
    metadata,
    stream_tensors,
    tensors,
)


class AsyncGrpcTransport:
    """See `AsyncTransport`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def infer(self, call: Call, timeout_s: float | None) -> Tensors:
        try:
            response = await self._stub.ModelInfer(
                infer_request(call), timeout=timeout_s, metadata=metadata(self._connection)
            )
        except grpc.RpcError as error:
            raise error_from_rpc(error, call.request_id) from error
        return tensors(response, call)

    async def stream(self, call: Call, timeout_s: float | None) -> AsyncGenerator[Tensors, None]:
        rpc = self._stub.ModelStreamInfer(
            iter([infer_request(call)]), timeout=timeout_s, metadata=metadata(self._connection)
        )
        try:
            async for message in rpc:
                yield stream_tensors(message, call)
        except grpc.RpcError as error:
            raise error_from_rpc(error, call.request_id) from error
        finally:
            rpc.cancel()

    async def is_ready(self, model: str, timeout_s: float | None) -> bool:
        try:
            request = service_pb2.ModelReadyRequest(name=model)
            answer = await self._stub.ModelReady(request, timeout=timeout_s, metadata=metadata(self._connection))
        except grpc.RpcError as error:
            raise error_from_rpc(error, None) from error
        return bool(answer.ready)

    async def close(self) -> None:
        if "_channel" in self.__dict__:
            await self._channel.close()

    @cached_property
    def _channel(self) -> Any:
        """Made on first use, since a channel belongs to the event loop that is running then."""
        address = self._connection.address
        if address.is_secure:
            keys = credentials(self._connection)
            return grpc.aio.secure_channel(address.host_and_port, keys, options=CHANNEL_OPTIONS)
        return grpc.aio.insecure_channel(address.host_and_port, options=CHANNEL_OPTIONS)

    @cached_property
    def _stub(self) -> Any:
        return service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
