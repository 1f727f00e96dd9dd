"""The gateway's settings: every default lives here, and the command line reads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from qwen_image_client.integration import DEFAULT_GUIDANCE, DEFAULT_TIMEOUT_S, OnOff
from qwen_image_gateway.connections import Connections

MIB = 1024**2

_POSITIVE = (
    "max_requests",
    "max_json_bytes",
    "max_upload_bytes",
    "max_picture_pixels",
    "max_bytes_in_work",
    "body_timeout_s",
    "write_timeout_s",
    "timeout_s",
    "keep_alive_s",
    "header_timeout_s",
    "max_connections",
    "max_connections_of_address",
)


class SettingsError(ValueError):
    """Settings that can't be used, and what to do."""


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """One gateway's.

    Attributes:
        url: Triton's gRPC host:port. The server may come up later.
        api_keys: a file of keys, one a line, lines that begin with # left out; None: everybody may ask.
        served_model_names: other names that callers may give the model, as an OpenAI client's `model`.
        default_guidance: whether a request is guided that sends neither a negative prompt nor a scale.
        max_requests: image requests in work or being read at one time; one more is answered 429 at once.
        max_json_bytes: of the body of a request without pictures.
        max_upload_bytes: of the body of a request with pictures.
        max_picture_pixels: of one picture that is sent, told by its header before it is decoded.
        max_bytes_in_work: of pictures in work, each counted once for every picture that is made of it, since it is sent
            as often. A request beyond it is answered 429, and 413 if it alone is over.
        body_timeout_s: how long a body may take to come.
        write_timeout_s: how long a caller may take to read 256 KiB of its answer, before the connection is closed.
        timeout_s: after which a request is answered 504, and its work in Triton ended.
        retry_after_s: what a 429 and a 503 tell the caller to wait.
        keep_alive_s: after which a stream without an event sends a comment, so that no proxy thinks it dead.
        stop_s: how long requests in work have to end when the gateway is told to stop.
        cors_origins: web pages of which origins may ask, "*" for all; none may if it is empty.
        allowed_hosts: names that the gateway may be asked under, "*" for all; empty: loopback's own where it listens on
            loopback alone, else all.
        header_timeout_s: how long a request's headers may take.
        max_connections, max_connections_of_address: at one time; beyond it one that waits for a request is closed.
        log_addresses: whether the log has callers' addresses.
        otlp_endpoint: where traces are sent, by OTLP over HTTP; None: none are made.
        page: whether to serve the page to play on, too, under /page.
    """

    url: str = "localhost:8001"
    api_keys: Path | None = None
    served_model_names: tuple[str, ...] = ()
    default_guidance: OnOff = DEFAULT_GUIDANCE
    max_requests: int = 64
    max_json_bytes: int = MIB
    max_upload_bytes: int = 64 * MIB
    max_picture_pixels: int = 4096 * 4096
    max_bytes_in_work: int = 1024 * MIB
    body_timeout_s: float = 60.0
    write_timeout_s: float = 60.0
    timeout_s: float = DEFAULT_TIMEOUT_S
    retry_after_s: int = 1
    keep_alive_s: float = 15.0
    stop_s: int = 30
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    header_timeout_s: float = Connections().header_s
    max_connections: int = Connections().most
    max_connections_of_address: int = Connections().most_of_address
    log_addresses: bool = False
    otlp_endpoint: str | None = None
    page: bool = False

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            if not getattr(self, name) > 0:
                raise SettingsError(f"{name}={getattr(self, name)} must be more than 0")
        for name in ("retry_after_s", "stop_s"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{name}={getattr(self, name)} must not be less than 0")
        if self.page and self.api_keys is not None:
            raise SettingsError(
                "the page asks Triton by itself and knows no keys, so it can't be served beside API keys: "
                "start it as its own process (python -m qwen_image_page), where only those who may use it reach it"
            )
