"""What users see of the gateway is what stored snapshots hold: the OpenAPI document, options, environment, metrics.

`python -m tests.gateway.test_surface` writes the snapshots anew, where a change is meant.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from dataclasses import asdict
from pathlib import Path
from unittest import mock

import pytest

from qwen_image_gateway import GatewaySettings, create_app
from qwen_image_gateway.arguments import read_arguments
from qwen_image_gateway.telemetry import GatewayMetrics

SNAPSHOTS = Path(__file__).parent / "snapshots"
PREFIX = "QWEN_IMAGE_GATEWAY_"
VALUES = {
    "3": """PORT MAX_REQUESTS MAX_JSON_BYTES MAX_UPLOAD_BYTES MAX_PICTURE_PIXELS MAX_BYTES_IN_WORK MAX_CONNECTIONS
        MAX_CONNECTIONS_OF_ADDRESS RETRY_AFTER_S BODY_TIMEOUT_S WRITE_TIMEOUT_S TIMEOUT_S KEEP_ALIVE_S STOP_S
        HEADER_TIMEOUT_S""",
    "yes": "LOG_ADDRESSES PAGE",
    "a, b": "SERVED_MODEL_NAME CORS_ORIGIN ALLOWED_HOST",
    "text": "URL HOST API_KEYS OTLP_ENDPOINT",
    "off": "DEFAULT_GUIDANCE",
}
ENVIRONMENT = {PREFIX + name: value for value, names in VALUES.items() for name in names.split()}


def openapi() -> str:
    return as_json(create_app(GatewaySettings()).openapi())


def help_text() -> str:
    with (
        mock.patch.dict(os.environ, {"COLUMNS": "1000"}),
        contextlib.redirect_stdout(io.StringIO()) as said,
        contextlib.suppress(SystemExit),
    ):
        read_arguments(["--help"])
    return said.getvalue()


def environment() -> str:
    """Each variable, and the settings that it changes."""
    return as_json({name: changed_by(name, value) for name, value in ENVIRONMENT.items()})


def changed_by(name: str, value: str) -> dict[str, object]:
    unchanged = settings_with({})
    return {key: each for key, each in settings_with({name: value}).items() if each != unchanged[key]}


def settings_with(environment: dict[str, str]) -> dict[str, object]:
    others = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    with mock.patch.dict(os.environ, {**others, **environment}, clear=True):
        settings, address = read_arguments([])
    return asdict(settings) | asdict(address)


def metrics() -> str:
    """The name, kind and help of each metric, and the labels that are there from the start."""
    registry = GatewayMetrics().registry
    samples = {
        (sample.name, *sorted(sample.labels.items()))
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    return as_json(
        [[family.name, family.type, family.documentation] for family in registry.collect()] + sorted(samples)
    )


def as_json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"


SURFACE = {"openapi.json": openapi, "help.txt": help_text, "environment.json": environment, "metrics.json": metrics}


@pytest.mark.parametrize("name", SURFACE)
def test_what_users_see_is_what_the_snapshot_holds(name):
    assert SURFACE[name]() == (SNAPSHOTS / name).read_text()


def test_every_option_has_a_variable_in_the_snapshot():
    options = set(re.findall(r"^  --([\w-]+)", help_text(), re.MULTILINE)) - {"version"}
    assert {PREFIX + option.replace("-", "_").upper() for option in options} == ENVIRONMENT.keys()


def test_keys_add_their_error_and_their_scheme_to_the_document_and_nothing_else(tmp_path):
    (tmp_path / "keys").write_text("key\n")
    document = create_app(GatewaySettings(api_keys=tmp_path / "keys")).openapi()
    assert document["components"].pop("securitySchemes") == {"key": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            is_open = path.startswith("/health")
            assert operation.pop("security", None) == (None if is_open else [{"key": []}])
            assert (operation["responses"].pop("401", None) is None) == is_open
    assert as_json(document) == (SNAPSHOTS / "openapi.json").read_text()


if __name__ == "__main__":
    for file_name, snapshot in SURFACE.items():
        (SNAPSHOTS / file_name).write_text(snapshot())
