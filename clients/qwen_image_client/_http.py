"""Triton over HTTP: requests and answers as binary tensors after a JSON header, a connection a request.

A connection costs nothing beside minutes of denoising. tritonclient writes and reads the bodies. Its own HTTP client
isn't used, since it is bound to one thread's gevent loop and takes its timeout for all requests together.
"""

import http.client
import json
import ssl
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

import aiohttp
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import np_to_triton_dtype

from qwen_image_client._address import Connection
from qwen_image_client._call import Call, Tensors
from qwen_image_client._errors import (
    ConnectionLost,
    InvalidRequest,
    QwenImageClientError,
    ServerError,
    ServerUnreachable,
    Timeout,
    error_from_status,
)
from qwen_image_client._settings import Deadline

CONNECT_TIMEOUT_S = 10.0
_TIMED_OUT = "the deadline passed before the answer came"
_NO_STREAMS = "previews need gRPC: Triton's HTTP protocol carries one response a request"
_HEADER_LENGTH = "Inference-Header-Content-Length"
_WRONG_PORT = (
    "what listens there speaks no HTTP/1; if this is Triton's gRPC port, name its HTTP port instead, 8000 unless it "
    "was set, or begin the url with grpc://"
)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One HTTP request.

    Attributes:
        request_id: of the inference request that it carries, for errors; None where it carries none.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """One answer. Its headers have names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpSession:
    """Sends requests, blocking, from any thread."""

    def __init__(self, connection: Connection) -> None:
        self._address = connection.address
        self._tls = _tls_context(connection)

    def send(self, request: HttpRequest, timeout_s: float | None) -> HttpResponse:
        """The answer to `request`; what goes wrong is a QwenImageClientError."""
        deadline = Deadline.after(timeout_s)
        with closing(self._new_connection()) as connection:
            _connect(connection, request, deadline)
            return _exchange(connection, request, deadline)

    def close(self) -> None:
        """Nothing to do: no connection outlives its request."""

    def _new_connection(self) -> http.client.HTTPConnection:
        if self._tls is not None:
            return http.client.HTTPSConnection(self._address.host, self._address.port, context=self._tls)
        return http.client.HTTPConnection(self._address.host, self._address.port)


def _connect(connection: http.client.HTTPConnection, request: HttpRequest, deadline: Deadline) -> None:
    connection.timeout = min(CONNECT_TIMEOUT_S, deadline.remaining_s() or CONNECT_TIMEOUT_S)
    try:
        connection.connect()
    except OSError as error:
        where = f"{connection.host}:{connection.port}"
        raise ServerUnreachable(f"no connection to {where}: {error}", request_id=request.request_id) from error


def _exchange(connection: http.client.HTTPConnection, request: HttpRequest, deadline: Deadline) -> HttpResponse:
    try:
        connection.sock.settimeout(deadline.remaining_s())
        connection.request(request.method, request.path, request.body, dict(request.headers))
        answer = connection.getresponse()
        return HttpResponse(answer.status, _lower_names(answer.headers.items()), answer.read())
    except TimeoutError as error:
        raise Timeout(_TIMED_OUT, request_id=request.request_id) from error
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, http.client.BadStatusLine) and not isinstance(error, http.client.RemoteDisconnected):
            raise ServerUnreachable(_WRONG_PORT, request_id=request.request_id) from error
        message = f"the connection broke: {error or type(error).__name__}"
        raise ConnectionLost(message, request_id=request.request_id) from error


class AsyncHttpSession:
    """Sends requests on asyncio, from one event loop."""

    def __init__(self, connection: Connection) -> None:
        self._address = connection.address
        self._tls = _tls_context(connection)

    async def send(self, request: HttpRequest, timeout_s: float | None) -> HttpResponse:
        """The answer to `request`; what goes wrong is a QwenImageClientError."""
        try:
            return await self._exchange(request, timeout_s)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise ServerUnreachable(f"no connection: {error}", request_id=request.request_id) from error
        except aiohttp.ClientResponseError as error:  # only an answer that can't be read raises it
            raise ServerUnreachable(_WRONG_PORT, request_id=request.request_id) from error
        except TimeoutError as error:
            raise Timeout(_TIMED_OUT, request_id=request.request_id) from error
        except aiohttp.ClientError as error:
            message = f"the connection broke: {str(error) or type(error).__name__}"
            raise ConnectionLost(message, request_id=request.request_id) from error

    async def close(self) -> None:
        if "_session" in self.__dict__:
            await self._session.close()

    async def _exchange(self, request: HttpRequest, timeout_s: float | None) -> HttpResponse:
        scheme = "http" if self._tls is None else "https"
        url = f"{scheme}://{self._address.host_and_port}{request.path}"
        limits = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        async with self._session.request(
            request.method, url, headers=request.headers, data=request.body, timeout=limits
        ) as answer:
            return HttpResponse(answer.status, _lower_names(answer.headers.items()), await answer.read())

    @cached_property
    def _session(self) -> aiohttp.ClientSession:
        """Opened on first use, since a session belongs to the event loop that is running then."""
        connector = aiohttp.TCPConnector(ssl=self._tls or True, limit=0, force_close=True)
        return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))


def _lower_names(headers: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    return {name.lower(): value for name, value in headers}


def _tls_context(connection: Connection) -> ssl.SSLContext | None:
    """The TLS settings of a secure address; None for a plain one."""
    if not connection.address.is_secure:
        return None
    return ssl.create_default_context(cafile=connection.root_certificates)


def infer_request(call: Call, connection: Connection) -> HttpRequest:
    """The POST that carries `call`."""
    body, header_length = InferenceServerClient.generate_request_body(
        [_infer_input(call, name) for name in call.inputs],
        outputs=[InferRequestedOutput(name) for name in call.outputs],
        request_id=call.request_id,
    )
    headers = {**connection.headers, "Content-Type": "application/octet-stream"}
    headers[_HEADER_LENGTH] = str(len(body) if header_length is None else header_length)
    return HttpRequest("POST", _model_path(connection, call.model, "infer"), headers, body, call.request_id)


def _infer_input(call: Call, name: str) -> InferInput:
    array = call.inputs[name]
    return InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)).set_data_from_numpy(array)


def tensors(answer: HttpResponse, call: Call) -> Tensors:
    """The outputs in an answer.

    Raises:
        QwenImageClientError: the server answered with an error, or with something that is no inference result.
    """
    if answer.status != 200:
        raise error_from_answer(answer, call.request_id)
    length = answer.headers.get(_HEADER_LENGTH.lower())
    try:
        header_length = None if length is None else int(length)
        result = InferenceServerClient.parse_response_body(answer.body, header_length=header_length)
        return {name: result.as_numpy(name) for name in call.outputs}
    except (ValueError, KeyError, TypeError) as error:
        raise ServerError(f"the answer is no inference result: {error}", request_id=call.request_id) from error


def error_from_answer(answer: HttpResponse, request_id: str | None) -> QwenImageClientError:
    """The typed error of an answer; a proxy's may be no JSON, then its text is the message."""
    text = answer.body.decode(errors="replace").strip()
    try:
        message = str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        message = text[:500] or "an empty answer"
    return error_from_status(str(answer.status), message, request_id)


def ready_request(model: str, connection: Connection) -> HttpRequest:
    """The GET that asks whether `model` is ready; the answer's status is 200 if it is."""
    return HttpRequest("GET", _model_path(connection, model, "ready"), connection.headers)


def config_request(model: str, connection: Connection) -> HttpRequest:
    """The GET of the configuration of `model`."""
    return HttpRequest("GET", _model_path(connection, model, "config"), connection.headers)


def parameters(answer: HttpResponse) -> Mapping[str, str]:
    """The parameters of the configuration in an answer; raises as `tensors` does."""
    if answer.status != 200:
        raise error_from_answer(answer, None)
    try:
        found = json.loads(answer.body).get("parameters", {})
        return {name: str(value["string_value"]) for name, value in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ServerError(f"the answer is no model configuration: {error}") from error


def _model_path(connection: Connection, model: str, action: str) -> str:
    return f"{connection.address.base_path}/v2/models/{quote(model)}/{action}"


def no_streams(call: Call) -> InvalidRequest:
    return InvalidRequest(_NO_STREAMS, request_id=call.request_id)
