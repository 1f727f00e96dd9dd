"""The gateway's settings: every default lives here, and the command line reads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from qwen_image_client.integration import DEFAULT_GUIDANCE, DEFAULT_TIMEOUT_S, OnOff

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
    """The settings of one gateway.

    Attributes:
        url: Triton's gRPC host:port. The server may come up later.
        api_keys: a file of keys, one a line, lines that begin with # are comments; None: no key is needed.
        served_model_names: other names of the model that callers may send as `model`.
        default_guidance: whether a request with neither a negative prompt nor a scale is guided.
        max_requests: image requests at one time, from reading the body to sending the response; one more is answered
            429 at once.
        max_json_bytes: of the body of a request without images.
        max_upload_bytes: of the body of a request with images.
        max_picture_pixels: of one input image, read from its header before it is decoded.
        max_bytes_in_work: of the input images of all requests in flight, each counted once for every image generated
            from it, since it is sent as often. A request beyond it is answered 429, or 413 if it is over by itself.
        body_timeout_s: for the client to send its body.
        write_timeout_s: for the client to read 256 KiB of its response; then the connection is closed.
        timeout_s: for a request; then it is answered 504 and cancelled in Triton.
        retry_after_s: the `retry-after` of a 429 and a 503.
        keep_alive_s: after so long without an event a stream sends a comment, so that no proxy closes it.
        stop_s: for requests in flight when the gateway is stopped.
        cors_origins: origins whose web pages may send requests, "*" for all; empty: none.
        allowed_hosts: values of the header `host` that are accepted, "*" for all; empty: loopback's names where the
            gateway listens on loopback alone, else all.
        header_timeout_s: for the client to send a request's headers.
        max_connections, max_connections_of_address: at one time, in all and from one address; beyond it a connection
            that waits for a request is closed.
        log_addresses: whether the log has clients' addresses.
        otlp_endpoint: where spans are sent by OTLP over HTTP; None: no spans.
        page: whether the demo page is served under /page.
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
    header_timeout_s: float = 10.0
    max_connections: int = 512
    max_connections_of_address: int = 256
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
