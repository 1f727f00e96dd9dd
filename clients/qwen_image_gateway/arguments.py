"""The command line: one option a setting, each default read from the settings."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qwen_image_client.guidance import ON_OFF
from qwen_image_client.version import VERSION
from qwen_image_gateway.settings import GatewaySettings

_SETTINGS = GatewaySettings()


@dataclass(frozen=True, slots=True)
class Address:
    """Where the gateway listens."""

    host: str = "127.0.0.1"
    port: int = 8080


def read_arguments(arguments: Sequence[str] | None = None) -> tuple[GatewaySettings, Address]:
    """What the command line asks for.

    Raises:
        SettingsError: settings that can't be used.
    """
    given = vars(_parser().parse_args(arguments))
    address = Address(given.pop("host"), given.pop("port"))
    several = {name: tuple(given[name] or ()) for name in ("cors_origins", "served_model_names")}
    return GatewaySettings(**{**given, **several}), address


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="qwen-image-gateway", description="OpenAI's images API in front of Qwen-Image on Triton."
    )

    parser.add_argument("--version", action="version", version=VERSION)

    def add(flag: str, help_text: str, default: object, **options: object) -> None:
        known = "" if default is None or default is False else " (default: %(default)s)"
        parser.add_argument(flag, help=help_text + known, default=default, **options)  # type: ignore[arg-type]

    add("--url", "Triton's gRPC host:port; it may come up later", _SETTINGS.url)
    add("--host", "the address to listen on; 0.0.0.0 for every interface", Address().host)
    add("--port", "the port to listen on", Address().port, type=int)
    add("--api-keys", "a file of keys, one a line, # begins a comment; without it nobody needs one", None, type=Path)
    add(
        "--served-model-name",
        "another name of the model, for instance Qwen/Qwen-Image; may be given several times",
        None,
        action="append",
        dest="served_model_names",
    )
    add(
        "--default-guidance",
        "whether requests are guided, by a blank negative prompt, that send neither a negative prompt nor a scale",
        _SETTINGS.default_guidance,
        choices=ON_OFF,
    )
    add("--max-requests", "image requests at one time; more are answered 429", _SETTINGS.max_requests, type=int)
    add("--max-json-bytes", "of a body without pictures", _SETTINGS.max_json_bytes, type=int)
    add("--max-upload-bytes", "of a body with pictures", _SETTINGS.max_upload_bytes, type=int)
    add("--max-picture-pixels", "of one picture that is sent", _SETTINGS.max_picture_pixels, type=int)
    add("--max-bytes-in-work", "of pictures on their way to Triton", _SETTINGS.max_bytes_in_work, type=int)
    add("--body-timeout-s", "how long a body may take to come, in seconds", _SETTINGS.body_timeout_s, type=float)
    add("--write-timeout-s", "for a caller to read 256 KiB of its answer", _SETTINGS.write_timeout_s, type=float)
    add("--timeout-s", "the limit of a request, in seconds", _SETTINGS.timeout_s, type=float)
    add("--retry-after-s", "what a 429 and a 503 tell callers to wait", _SETTINGS.retry_after_s, type=int)
    add("--keep-alive-s", "a stream says so often that it lives", _SETTINGS.keep_alive_s, type=float)
    add("--stop-s", "how long requests in work have to end when it stops", _SETTINGS.stop_s, type=int)
    add(
        "--cors-origin",
        "an origin whose web pages may ask, * for all; may be given several times",
        None,
        action="append",
        dest="cors_origins",
    )
    add("--otlp-endpoint", "where to send traces, for instance http://localhost:4318; none are made without", None)
    add("--page", "serve the page to play on, too, under /page", False, action="store_true")
    return parser
