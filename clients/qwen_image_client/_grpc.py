"""Triton over gRPC: channels, calls as protobuf messages, and a failed RPC as the client's error.

Calls go through the stubs that tritonclient ships and not its InferenceServerClient, which allows one stream
a client and leaves a thread behind for each stream that is cancelled.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import grpc  # type: ignore[import-untyped]
import grpc.aio  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import InferResult, service_pb2, service_pb2_grpc
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor

from qwen_image_client._address import Connection
from qwen_image_client._call import Call, Tensors
from qwen_image_client._errors import IN_A_STREAM, QwenImageClientError, error_from_grpc, error_from_status

# Images and latents outgrow gRPC's own 4 MB limit. A server that starts up is found within two seconds.
CHANNEL_OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.min_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 2000),
]


class Channel:
    """A blocking channel. One serves every call and stream, from any thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._channel = _open(grpc, connection)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)

    def call(self, method: str, request: Any, timeout_s: float | None) -> Any:
        """The one response to `request`."""
        rpc = getattr(self._stub, method).future(request, timeout=timeout_s, metadata=_metadata(self._connection))
        try:
            return rpc.result()
        finally:
            rpc.cancel()  # nothing where it is done; a Ctrl-C leaves it running

    def stream(self, request: Any, timeout_s: float | None) -> Any:
        """The RPC that iterates over the responses to `request`."""
        return self._stub.ModelStreamInfer(iter([request]), timeout=timeout_s, metadata=_metadata(self._connection))

    def close(self) -> None:
        self._channel.close()


class AsyncChannel:
    """A channel on asyncio, opened on first use, since it belongs to the event loop that is running then."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def call(self, method: str, request: Any, timeout_s: float | None) -> Any:
        """The one response to `request`."""
        return await getattr(self._stub, method)(request, timeout=timeout_s, metadata=_metadata(self._connection))

    def stream(self, request: Any, timeout_s: float | None) -> Any:
        """The RPC that iterates over the responses to `request`."""
        return self._stub.ModelStreamInfer(iter([request]), timeout=timeout_s, metadata=_metadata(self._connection))

    async def close(self) -> None:
        if "_channel" in self.__dict__:
            await self._channel.close()

    @cached_property
    def _channel(self) -> Any:
        return _open(grpc.aio, self._connection)

    @cached_property
    def _stub(self) -> Any:
        return service_pb2_grpc.GRPCInferenceServiceStub(self._channel)


def _open(library: Any, connection: Connection) -> Any:
    """A channel of `grpc` or of `grpc.aio`."""
    address = connection.address
    if address.is_secure:
        return library.secure_channel(address.host_and_port, _credentials(connection), options=CHANNEL_OPTIONS)
    return library.insecure_channel(address.host_and_port, options=CHANNEL_OPTIONS)


def _metadata(connection: Connection) -> tuple[tuple[str, str], ...]:
    """The headers of one call.

    Not among them is `triton_grpc_error`, by which a stream's errors would have statuses of their own: on Triton 2.51 a
    server crashed (signal 11) after some 4 to 25 refused streams that had it.
    """
    return tuple((name.lower(), value) for name, value in connection.headers.items())


def _credentials(connection: Connection) -> Any:
    """Channel credentials for a secure address."""
    certificates = connection.root_certificates
    return grpc.ssl_channel_credentials(None if certificates is None else certificates.read_bytes())


def infer_request(call: Call) -> Any:
    """The ModelInferRequest of `call`, tensors as raw bytes."""
    request = service_pb2.ModelInferRequest(model_name=call.model, id=call.request_id)
    for name, array in call.inputs.items():
        request.inputs.add(name=name, datatype=np_to_triton_dtype(array.dtype), shape=array.shape)
        request.raw_input_contents.append(_raw(array))
    for name in call.outputs:
        request.outputs.add(name=name)
    return request


def _raw(array: NDArray[Any]) -> bytes:
    if array.dtype != np.object_:
        return array.tobytes()
    serialized: bytes = serialize_byte_tensor(array).item()
    return serialized


def parameters(response: Any) -> Mapping[str, str]:
    """The parameters of the configuration in a ModelConfigResponse."""
    return {name: value.string_value for name, value in response.config.parameters.items()}


def tensors(response: Any, call: Call) -> Tensors:
    """The outputs of a ModelInferResponse."""
    result = InferResult(response)
    return {name: result.as_numpy(name) for name in call.outputs}


def stream_tensors(message: Any, call: Call) -> Tensors:
    """The outputs of one ModelStreamInferResponse.

    Raises:
        QwenImageClientError: the message carries an error.
    """
    if message.error_message:
        raise error_from_status(IN_A_STREAM, message.error_message, call.request_id)
    return tensors(message.infer_response, call)


def error_from_rpc(error: Any, request_id: str | None) -> QwenImageClientError:
    """The typed error of a grpc.RpcError."""
    return error_from_grpc(error.code().name, error.details() or "", request_id)
