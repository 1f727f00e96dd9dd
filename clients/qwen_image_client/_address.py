"""Where a server is and how to talk to it, read from one url."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from qwen_image_client._errors import InvalidRequest

Protocol: TypeAlias = Literal["grpc", "http"]
_SCHEMES: dict[str, tuple[Protocol, bool]] = {
    "grpc": ("grpc", False),
    "grpcs": ("grpc", True),
    "http": ("http", False),
    "https": ("http", True),
}
_PORTS: dict[Protocol, int] = {"grpc": 8001, "http": 8000}  # Triton's own


@dataclass(frozen=True, slots=True)
class Address:
    """A server's protocol, host and port, whether TLS protects it, and the path it lives under (HTTP only)."""

    protocol: Protocol
    host: str
    port: int
    is_secure: bool = False
    base_path: str = ""

    @property
    def host_and_port(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @classmethod
    def parse(cls, url: str, protocol: Protocol | None = None) -> "Address":
        """Reads "host", "host:port" or "scheme://host:port/path", scheme one of grpc, grpcs, http, https.

        Args:
            protocol: for a url without a scheme; "grpc" when None.

        Raises:
            InvalidRequest: the url can't be read, or its scheme contradicts `protocol`.
        """
        scheme, has_scheme, rest = url.rpartition("://")
        wanted, is_secure = _SCHEMES.get(scheme if has_scheme else protocol or "grpc", (None, False))
        if wanted is None:
            raise InvalidRequest(f"url={url!r}, protocol={protocol!r}: use one of {', '.join(_SCHEMES)}")
        if protocol not in (None, wanted):
            raise InvalidRequest(f"url={url!r} contradicts protocol={protocol!r}")
        host, port, path = _split(url, rest)
        if path and wanted == "grpc":
            raise InvalidRequest(f"url={url!r}: gRPC takes no path ({path!r})")
        default_port = 443 if is_secure else _PORTS[wanted]
        return cls(wanted, host, default_port if port is None else port, is_secure, path)


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


def _split(url: str, rest: str) -> tuple[str, int | None, str]:
    try:
        parts = urlsplit(f"//{rest}")
        port = parts.port
    except ValueError as error:
        raise InvalidRequest(f"url={url!r}: {error}") from error
    if not parts.hostname or parts.query or parts.fragment or parts.username:
        raise InvalidRequest(f"url={url!r} must be host:port, with a scheme before it if you like")
    return parts.hostname, port, parts.path.rstrip("/")
