"""The command line and the environment: one option per setting, with the default from the settings."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qwen_image_client.integration import ON_OFF, VERSION
from qwen_image_gateway.middleware.access import allowed_hosts_for
from qwen_image_gateway.settings import GatewaySettings, SettingsError

PREFIX = "QWEN_IMAGE_GATEWAY_"
_SETTINGS = GatewaySettings()
_REPEATABLE = ("--served-model-name", "--cors-origin", "--allowed-host")
_SWITCHES = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where the gateway listens."""

    host: str = "127.0.0.1"
    port: int = 8080


def read_arguments(arguments: Sequence[str] | None = None) -> tuple[GatewaySettings, ListenAddress]:
    """The settings and the address from the command line and the environment.

    Raises:
        SettingsError: the settings can't be used.
    """
    typed = list(sys.argv[1:] if arguments is None else arguments)
    given = vars(_parser().parse_args([*_from_environment(typed), *typed]))
    address = ListenAddress(given.pop("host"), given.pop("port"))
    several = {name: tuple(given[name] or ()) for name in ("cors_origins", "served_model_names", "allowed_hosts")}
    several["allowed_hosts"] = allowed_hosts_for(address.host, several["allowed_hosts"])
    return GatewaySettings(**{**given, **several}), address


def environment_name(flag: str) -> str:
    """The environment variable of an option."""
    return PREFIX + flag.removeprefix("--").replace("-", "_").upper()


def _from_environment(typed: Sequence[str]) -> list[str]:
    """The options that the environment sets and the command line doesn't.

    Raises:
        SettingsError: the value of a switch is neither yes nor no.
    """
    found: list[str] = []
    for action in _parser()._actions:
        flag = action.option_strings[-1]
        value = os.environ.get(environment_name(flag), "")
        if action.default == argparse.SUPPRESS or not value:  # --help and --version aren't settings
            continue
        if any(each == flag or each.startswith(f"{flag}=") for each in typed):
            continue
        if action.nargs == 0:
            found += [flag] if _is_on(environment_name(flag), value) else []
        else:
            values = value.split(",") if flag in _REPEATABLE else [value]
            found += [f"{flag}={each.strip()}" for each in values]
    return found


def _is_on(variable: str, value: str) -> bool:
    if value.lower() not in _SWITCHES:
        raise SettingsError(f"{variable}={value} must be one of {', '.join(_SWITCHES)}")
    return _SWITCHES[value.lower()]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="qwen-image-gateway",
        description="OpenAI's images API in front of Qwen-Image on Triton.",
        epilog="Each option may be set in the environment instead, --max-requests as "
        f"{environment_name('--max-requests')}, several values with commas between them.",
        allow_abbrev=False,
    )

    parser.add_argument("--version", action="version", version=VERSION)

    def add(flag: str, help_text: str, default: object, **options: object) -> None:
        known = "" if default is None or default is False else " (default: %(default)s)"
        parser.add_argument(flag, help=help_text + known, default=default, **options)  # type: ignore[arg-type]

    add("--url", "Triton's gRPC host:port; it may come up later", _SETTINGS.url)
    add("--host", "the address to listen on; 0.0.0.0 for every interface", ListenAddress().host)
    add("--port", "the port to listen on", ListenAddress().port, type=int)
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
    add(
        "--allowed-host",
        "a name the gateway may be asked under, * for any; may be given several times; without it loopback's names "
        "where it listens on loopback, else any",
        None,
        action="append",
        dest="allowed_hosts",
    )
    add("--header-timeout-s", "how long a request's headers may take", _SETTINGS.header_timeout_s, type=float)
    add("--max-connections", "connections at one time", _SETTINGS.max_connections, type=int)
    add(
        "--max-connections-of-address",
        "connections at one time from one address",
        _SETTINGS.max_connections_of_address,
        type=int,
    )
    add("--log-addresses", "write callers' addresses to the log", False, action="store_true")
    add("--otlp-endpoint", "where to send traces, for instance http://localhost:4318; none are made without", None)
    add("--page", "serve the page to play on, too, under /page", False, action="store_true")
    return parser
