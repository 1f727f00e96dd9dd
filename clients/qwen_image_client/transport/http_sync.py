"""HTTP, blocking, a connection a request: nothing beside minutes of denoising.

tritonclient writes and reads the bodies. Its own HTTP client isn't used, since it is bound to one thread's gevent
loop and takes its timeout for all requests together.
"""

import http.client
from collections.abc import Generator, Mapping

from qwen_image_client.call import Call, Tensors
from qwen_image_client.deadline import Deadline
from qwen_image_client.errors import ConnectionLost, ServerUnreachable, Timeout
from qwen_image_client.status import WRONG_PORT_FOR_HTTP
from qwen_image_client.transport.base import CONNECT_TIMEOUT_S, Connection
from qwen_image_client.transport.http_codec import infer_request, no_streams, ready_path, ssl_context, tensors


class HttpTransport:
    """See `Transport`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ssl = ssl_context(connection)

    def infer(self, call: Call, timeout_s: float | None) -> Tensors:
        request = infer_request(call, self._connection)
        exchange = _Exchange(self._connect(), call.request_id, Deadline.after(timeout_s))
        status, headers, body = exchange.run("POST", request.path, request.headers, request.body)
        return tensors(status, headers, body, call)

    def stream(self, call: Call, timeout_s: float | None) -> Generator[Tensors, None, None]:
        raise no_streams(call)

    def is_ready(self, model: str, timeout_s: float | None) -> bool:
        exchange = _Exchange(self._connect(), None, Deadline.after(timeout_s))
        status, _, _ = exchange.run("GET", ready_path(model, self._connection), self._connection.headers, b"")
        return status == 200

    def close(self) -> None:
        """Nothing to do: no connection outlives its request."""

    def _connect(self) -> http.client.HTTPConnection:
        address = self._connection.address
        if self._ssl is not None:
            return http.client.HTTPSConnection(address.host, address.port, context=self._ssl)
        return http.client.HTTPConnection(address.host, address.port)


class _Exchange:
    """One request and its answer on a connection of its own, under a deadline."""

    def __init__(self, connection: http.client.HTTPConnection, request_id: str | None, deadline: Deadline) -> None:
        self._connection = connection
        self._request_id = request_id
        self._deadline = deadline

    def run(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        try:
            self._open()
            return self._talk(method, path, headers, body)
        finally:
            self._connection.close()

    def _open(self) -> None:
        self._connection.timeout = min(CONNECT_TIMEOUT_S, self._deadline.remaining_s() or CONNECT_TIMEOUT_S)
        try:
            self._connection.connect()
        except OSError as error:
            where = f"{self._connection.host}:{self._connection.port}"
            raise ServerUnreachable(f"no connection to {where}: {error}", request_id=self._request_id) from error

    def _talk(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        try:
            self._connection.sock.settimeout(self._deadline.remaining_s())
            self._connection.request(method, path, body, dict(headers))
            answer = self._connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
        except TimeoutError as error:
            raise Timeout("the deadline passed before the answer came", request_id=self._request_id) from error
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, http.client.BadStatusLine) and not isinstance(error, http.client.RemoteDisconnected):
                raise ServerUnreachable(WRONG_PORT_FOR_HTTP, request_id=self._request_id) from error
            message = f"the connection broke: {error or type(error).__name__}"
            raise ConnectionLost(message, request_id=self._request_id) from error
