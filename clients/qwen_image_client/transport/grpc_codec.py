"""A call to and from Triton's protobuf messages, and a failed RPC to the client's errors."""

from typing import Any

import grpc  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import InferResult, service_pb2
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor

from qwen_image_client.call import Call, Tensors
from qwen_image_client.errors import QwenImageClientError
from qwen_image_client.status import IN_A_STREAM, error_from_grpc, error_from_status
from qwen_image_client.transport.base import Connection

# Images and latents outgrow gRPC's own 4 MB limit. A server that starts up is found within two seconds.
CHANNEL_OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.min_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 2000),
]


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
    serialised: bytes = serialize_byte_tensor(array).item()
    return serialised


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


def metadata(connection: Connection) -> tuple[tuple[str, str], ...]:
    """The headers of one call.

    Not among them is `triton_grpc_error`, by which a stream's errors would have statuses of their own: on Triton 2.51 a
    server ended by itself (signal 11) after some 4 to 25 refused streams that had it.
    """
    return tuple((name.lower(), value) for name, value in connection.headers.items())


def credentials(connection: Connection) -> Any:
    """Channel credentials for a secure address."""
    certificates = connection.root_certificates
    return grpc.ssl_channel_credentials(None if certificates is None else certificates.read_bytes())
