"""What a client asks of the wire. Transports translate and send; they don't retry, wait or cancel."""

from collections.abc import AsyncGenerator, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from qwen_image_client.address import Address
from qwen_image_client.call import Call, Tensors

CONNECT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach a server.

    Attributes:
        headers: sent with every request (HTTP headers, gRPC metadata), for instance a gateway's authorization.
        root_certificates: a PEM file to trust in place of the system's, where the address is secure.
    """

    address: Address
    headers: Mapping[str, str] = field(default_factory=dict)
    root_certificates: Path | None = None


class Transport(Protocol):
    """One protocol, blocking. Safe to use from several threads at once."""

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

    def close(self) -> None: ...


class AsyncTransport(Protocol):
    """The asyncio twin of `Transport`, bound to the event loop that first uses it."""

    async def infer(self, call: Call, timeout_s: float | None) -> Tensors: ...

    def stream(self, call: Call, timeout_s: float | None) -> AsyncGenerator[Tensors, None]: ...

    async def is_ready(self, model: str, timeout_s: float | None) -> bool: ...

    async def close(self) -> None: ...
