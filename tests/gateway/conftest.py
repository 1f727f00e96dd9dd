"""A real gateway over the real tritonserver that all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from openai import OpenAI

from qwen_image.serving.tritonserver import TritonServer
from tests.gateway.running import Gateway, gateway_over


@pytest.fixture(scope="session")
def gateway(server: TritonServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway_over(server.grpc_url, tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture
def client(gateway: Gateway) -> Iterator[OpenAI]:
    with gateway.client() as opened:
        yield opened
