"""How calls travel: gRPC or HTTP, blocking or on asyncio."""

from qwen_image_client.transport.base import AsyncTransport, Connection, Transport
from qwen_image_client.transport.grpc_async import AsyncGrpcTransport
from qwen_image_client.transport.grpc_sync import GrpcTransport
from qwen_image_client.transport.http_async import AsyncHttpTransport
from qwen_image_client.transport.http_sync import HttpTransport

__all__ = ["AsyncTransport", "Connection", "Transport", "async_transport", "transport"]


def transport(connection: Connection) -> Transport:
    """The blocking transport for the connection's protocol."""
    return GrpcTransport(connection) if connection.address.protocol == "grpc" else HttpTransport(connection)


def async_transport(connection: Connection) -> AsyncTransport:
    """The asyncio transport for the connection's protocol."""
    return AsyncGrpcTransport(connection) if connection.address.protocol == "grpc" else AsyncHttpTransport(connection)
