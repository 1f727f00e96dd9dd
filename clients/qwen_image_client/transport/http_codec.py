"""A call to and from the bodies of Triton's HTTP protocol (tensors as binary data after a JSON header)."""

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import np_to_triton_dtype

from qwen_image_client.call import Call, Tensors
from qwen_image_client.errors import InvalidRequest, QwenImageClientError, ServerError
from qwen_image_client.status import error_from_status
from qwen_image_client.transport.base import Connection

_HEADER_LENGTH = "Inference-Header-Content-Length"
NO_STREAMS = "previews need gRPC: Triton's HTTP protocol carries one response a request"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One POST: its path, headers and body."""

    path: str
    headers: Mapping[str, str]
    body: bytes


def infer_request(call: Call, connection: Connection) -> HttpRequest:
    """The POST that carries `call`."""
    body, header_length = InferenceServerClient.generate_request_body(
        [_infer_input(call, name) for name in call.inputs],
        outputs=[InferRequestedOutput(name) for name in call.outputs],
        request_id=call.request_id,
    )
    headers = {**connection.headers, "Content-Type": "application/octet-stream"}
    headers[_HEADER_LENGTH] = str(len(body) if header_length is None else header_length)
    return HttpRequest(f"{connection.address.base_path}/v2/models/{quote(call.model)}/infer", headers, body)


def _infer_input(call: Call, name: str) -> InferInput:
    array = call.inputs[name]
    return InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)).set_data_from_numpy(array)


def tensors(status: int, headers: Mapping[str, str], body: bytes, call: Call) -> Tensors:
    """The outputs in an answer.

    Args:
        headers: the answer's, names in lower case.

    Raises:
        QwenImageClientError: the server answered with an error, or with something that is no inference result.
    """
    if status != 200:
        raise error_from_answer(status, body, call.request_id)
    length = headers.get(_HEADER_LENGTH.lower())
    try:
        result = InferenceServerClient.parse_response_body(body, header_length=None if length is None else int(length))
        return {name: result.as_numpy(name) for name in call.outputs}
    except (ValueError, KeyError, TypeError) as error:
        raise ServerError(f"the answer is no inference result: {error}", request_id=call.request_id) from error


def error_from_answer(status: int, body: bytes, request_id: str | None) -> QwenImageClientError:
    """The typed error of an answer; a proxy's may be no JSON, then its text is the message."""
    text = body.decode(errors="replace").strip()
    try:
        message = str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        message = text[:500] or "an empty answer"
    return error_from_status(str(status), message, request_id)


def ready_path(model: str, connection: Connection) -> str:
    return f"{connection.address.base_path}/v2/models/{quote(model)}/ready"


def ssl_context(connection: Connection) -> ssl.SSLContext | None:
    """The TLS settings of a secure address; None for a plain one."""
    if not connection.address.is_secure:
        return None
    return ssl.create_default_context(cafile=connection.root_certificates)


def no_streams(call: Call) -> InvalidRequest:
    return InvalidRequest(NO_STREAMS, request_id=call.request_id)
