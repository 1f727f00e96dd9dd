# Generated from _async_transport.py: edit that, then run .venv/bin/python -m scripts.unasync
"""Calls over gRPC or HTTP, blocking. Transports translate and send; they don't retry, wait or cancel."""

from collections.abc import Generator, Mapping
from typing import Protocol

import grpc  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2

from qwen_image_client import _grpc, _http
from qwen_image_client._address import Connection
from qwen_image_client._call import Call, Tensors


def open_transport(connection: Connection) -> "Transport":
    """The transport for the connection's protocol."""
    return GrpcTransport(connection) if connection.address.protocol == "grpc" else HttpTransport(connection)


class Transport(Protocol):
    """What a client asks of the wire. Safe to use from several threads at once."""

    def infer(self, call: Call, timeout_s: float | None) -> Tensors:
        """Sends `call` and waits for its one answer.

        Raises:
            QwenImageClientError: the typed reason, carrying the request's id.
        """

    def stream(self, call: Call, timeout_s: float | None) -> Generator[Tensors, None, None]:
        """Sends `call` and yields its responses; closing the iterator closes the stream.

        Raises:
            InvalidRequest: the protocol has no streams.
            QwenImageClientError: the typed reason, carrying the request's id.
        """

    def is_ready(self, model: str, timeout_s: float | None) -> bool:
        """Whether the server has `model` loaded and takes requests for it.

        Raises:
            QwenImageClientError: the server can't be asked.
        """

    def parameters(self, model: str, timeout_s: float | None) -> Mapping[str, str]:
        """The parameters in the configuration of `model`.

        Raises:
            QwenImageClientError: the server can't be asked, or doesn't have the model.
        """

    def close(self) -> None: ...


class GrpcTransport:
    """See `Transport`."""

    def __init__(self, connection: Connection) -> None:
        self._channel = _grpc.Channel(connection)

    def infer(self, call: Call, timeout_s: float | None) -> Tensors:
        try:
            response = self._channel.call("ModelInfer", _grpc.infer_request(call), timeout_s)
        except grpc.RpcError as error:
            raise _grpc.error_from_rpc(error, call.request_id) from error
        return _grpc.tensors(response, call)

    def stream(self, call: Call, timeout_s: float | None) -> Generator[Tensors, None, None]:
        rpc = self._channel.stream(_grpc.infer_request(call), timeout_s)
        try:
            for message in rpc:
                yield _grpc.stream_tensors(message, call)
        except grpc.RpcError as error:
            raise _grpc.error_from_rpc(error, call.request_id) from error
        finally:
            rpc.cancel()

    def is_ready(self, model: str, timeout_s: float | None) -> bool:
        try:
            answer = self._channel.call("ModelReady", service_pb2.ModelReadyRequest(name=model), timeout_s)
        except grpc.RpcError as error:
            raise _grpc.error_from_rpc(error, None) from error
        return bool(answer.ready)

    def parameters(self, model: str, timeout_s: float | None) -> Mapping[str, str]:
        try:
            answer = self._channel.call("ModelConfig", service_pb2.ModelConfigRequest(name=model), timeout_s)
        except grpc.RpcError as error:
            raise _grpc.error_from_rpc(error, None) from error
        return _grpc.parameters(answer)

    def close(self) -> None:
        self._channel.close()


class HttpTransport:
    """See `Transport`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session = _http.HttpSession(connection)

    def infer(self, call: Call, timeout_s: float | None) -> Tensors:
        answer = self._session.send(_http.infer_request(call, self._connection), timeout_s)
        return _http.tensors(answer, call)

    def stream(self, call: Call, timeout_s: float | None) -> Generator[Tensors, None, None]:
        raise _http.no_streams(call)
        yield  # makes this a generator, as the protocol wants

    def is_ready(self, model: str, timeout_s: float | None) -> bool:
        answer = self._session.send(_http.ready_request(model, self._connection), timeout_s)
        return answer.status == 200

    def parameters(self, model: str, timeout_s: float | None) -> Mapping[str, str]:
        answer = self._session.send(_http.config_request(model, self._connection), timeout_s)
        return _http.parameters(answer)

    def close(self) -> None:
        self._session.close()
