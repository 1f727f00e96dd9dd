"""Calls over gRPC or HTTP, on asyncio. Transports translate and send; they don't retry, wait or cancel."""

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol

import grpc  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2

from qwen_image_client import _grpc, _http
from qwen_image_client._address import Connection
from qwen_image_client._call import Call, Tensors


def open_async_transport(connection: Connection) -> "AsyncTransport":
    """The transport for the connection's protocol."""
    return AsyncGrpcTransport(connection) if connection.address.protocol == "grpc" else AsyncHttpTransport(connection)


class AsyncTransport(Protocol):
    """What a client asks of the wire. Bound to the event loop that first uses it."""

    async def infer(self, call: Call, timeout_s: float | None) -> Tensors:
        """Sends `call` and waits for its one answer.

        Raises:
            QwenImageClientError: the typed reason, carrying the request's id.
        """

    def stream(self, call: Call, timeout_s: float | None) -> AsyncGenerator[Tensors, None]:
        """Sends `call` and yields its responses; closing the iterator closes the stream.

        Raises:
            InvalidRequest: the protocol has no streams.
            QwenImageClientError: the typed reason, carrying the request's id.
        """

    async def is_ready(self, model: str, timeout_s: float | None) -> bool:
        """Whether the server has `model` loaded and takes requests for it.

        Raises:
            QwenImageClientError: the server can't be asked.
        """

    async def parameters(self, model: str, timeout_s: float | None) -> Mapping[str, str]:
        """The parameters in the configuration of `model`.

        Raises:
            QwenImageClientError: the server can't be asked, or doesn't have the model.
        """

    async def close(self) -> None: ...


class AsyncGrpcTransport:
    """See `AsyncTransport`."""

    def __init__(self, connection: Connection) -> None:
        self._channel = _grpc.AsyncChannel(connection)

    async def infer(self, call: Call, timeout_s: float | None) -> Tensors:
        try:
            response = await self._channel.call("ModelInfer", _grpc.infer_request(call), timeout_s)
        except grpc.RpcError as error:
            raise _grpc.error_from_rpc(error, call.request_id) from error
        return _grpc.tensors(response, call)

    async def stream(self, call: Call, timeout_s: float | None) -> AsyncGenerator[Tensors, None]:
        rpc = self._channel.stream(_grpc.infer_request(call), timeout_s)
        try:
            async for message in rpc:
                yield _grpc.stream_tensors(message, call)
        except grpc.RpcError as error:
            raise _grpc.error_from_rpc(error, call.request_id) from error
        finally:
            rpc.cancel()

    async def is_ready(self, model: str, timeout_s: float | None) -> bool:
        try:
            answer = await self._channel.call("ModelReady", service_pb2.ModelReadyRequest(name=model), timeout_s)
        except grpc.RpcError as error:
            raise _grpc.error_from_rpc(error, None) from error
        return bool(answer.ready)

    async def parameters(self, model: str, timeout_s: float | None) -> Mapping[str, str]:
        try:
            answer = await self._channel.call("ModelConfig", service_pb2.ModelConfigRequest(name=model), timeout_s)
        except grpc.RpcError as error:
            raise _grpc.error_from_rpc(error, None) from error
        return _grpc.parameters(answer)

    async def close(self) -> None:
        await self._channel.close()


class AsyncHttpTransport:
    """See `AsyncTransport`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session = _http.AsyncHttpSession(connection)

    async def infer(self, call: Call, timeout_s: float | None) -> Tensors:
        answer = await self._session.send(_http.infer_request(call, self._connection), timeout_s)
        return _http.tensors(answer, call)

    async def stream(self, call: Call, timeout_s: float | None) -> AsyncGenerator[Tensors, None]:
        raise _http.no_streams(call)
        yield  # makes this a generator, as the protocol wants

    async def is_ready(self, model: str, timeout_s: float | None) -> bool:
        answer = await self._session.send(_http.ready_request(model, self._connection), timeout_s)
        return answer.status == 200

    async def parameters(self, model: str, timeout_s: float | None) -> Mapping[str, str]:
        answer = await self._session.send(_http.config_request(model, self._connection), timeout_s)
        return _http.parameters(answer)

    async def close(self) -> None:
        await self._session.close()
