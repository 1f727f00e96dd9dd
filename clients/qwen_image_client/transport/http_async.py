"""HTTP on asyncio: the twin of http_sync, a connection a request."""

from collections.abc import AsyncGenerator, Mapping
from functools import cached_property

import aiohttp

from qwen_image_client.call import Call, Tensors
from qwen_image_client.errors import ConnectionLost, ServerUnreachable, Timeout
from qwen_image_client.status import WRONG_PORT_FOR_HTTP
from qwen_image_client.transport.base import CONNECT_TIMEOUT_S, Connection
from qwen_image_client.transport.http_codec import infer_request, no_streams, ready_path, ssl_context, tensors


class AsyncHttpTransport:
    """See `AsyncTransport`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ssl = ssl_context(connection)

    async def infer(self, call: Call, timeout_s: float | None) -> Tensors:
        request = infer_request(call, self._connection)
        status, headers, body = await self._exchange(
            "POST", request.path, request.headers, request.body, call.request_id, timeout_s
        )
        return tensors(status, headers, body, call)

    async def stream(self, call: Call, timeout_s: float | None) -> AsyncGenerator[Tensors, None]:
        raise no_streams(call)
        yield  # makes this a generator, as the protocol wants

    async def is_ready(self, model: str, timeout_s: float | None) -> bool:
        path = ready_path(model, self._connection)
        status, _, _ = await self._exchange("GET", path, self._connection.headers, b"", None, timeout_s)
        return status == 200

    async def close(self) -> None:
        if "_session" in self.__dict__:
            await self._session.close()

    async def _exchange(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        request_id: str | None,
        timeout_s: float | None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        scheme = "http" if self._ssl is None else "https"
        url = f"{scheme}://{self._connection.address.host_and_port}{path}"
        limits = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        try:
            async with self._session.request(method, url, headers=headers, data=body, timeout=limits) as answer:
                names = {name.lower(): value for name, value in answer.headers.items()}
                return answer.status, names, await answer.read()
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise ServerUnreachable(f"no connection: {error}", request_id=request_id) from error
        except aiohttp.ClientResponseError as error:  # only an answer that can't be read raises it
            raise ServerUnreachable(WRONG_PORT_FOR_HTTP, request_id=request_id) from error
        except TimeoutError as error:
            raise Timeout("the deadline passed before the answer came", request_id=request_id) from error
        except aiohttp.ClientError as error:
            message = f"the connection broke: {str(error) or type(error).__name__}"
            raise ConnectionLost(message, request_id=request_id) from error

    @cached_property
    def _session(self) -> aiohttp.ClientSession:
        """Made on first use, since a session belongs to the event loop that is running then."""
        connector = aiohttp.TCPConnector(ssl=self._ssl or True, limit=0, force_close=True)
        return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
