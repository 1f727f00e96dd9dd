"""Real gateways over real tritonservers: the one that all tests share, and one with little room that sends traces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from openai import OpenAI

from build.repository import render_repository
from build.settings import Settings
from qwen_image.checkpoint import open_checkpoint
from qwen_image.launch.tritonserver import Ports, TritonServer
from tests.gateway.running import Gateway, gateway_over
from tests.gateway.trace_receiver import Receiver, receiving


@pytest.fixture(scope="session")
def gateway(server: TritonServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway_over(server.grpc_url, tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture
def client(gateway: Gateway) -> Iterator[OpenAI]:
    with gateway.client() as opened:
        yield opened


@pytest.fixture(scope="session")
def traces() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="session")
def ports() -> Ports:
    return Ports.free()


@pytest.fixture(scope="session")
def early_gateway(slow, ports: Ports, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One that looks for its Triton before that is started."""
    with gateway_over(f"127.0.0.1:{ports.grpc}", tmp_path_factory.mktemp("early")) as gateway:
        assert httpx.get(f"{gateway.url}/health/ready").status_code == 503
        yield gateway


@pytest.fixture(scope="session")
def narrow_server(
    early_gateway: Gateway,
    ports: Ports,
    tiny_checkpoint: Path,
    traces: Receiver,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[TritonServer]:
    """A Triton that sends spans, paints one picture at a time and has one wait."""
    folder = tmp_path_factory.mktemp("narrow")
    settings = Settings(max_images_in_flight=1, max_images_waiting=1)
    repository = render_repository(open_checkpoint(tiny_checkpoint), folder / "repository", settings=settings)
    options = (
        "--trace-config=mode=opentelemetry",
        "--trace-config=level=TIMESTAMPS",
        "--trace-config=rate=1",
        f"--trace-config=opentelemetry,url={traces.url}/v1/traces",
        "--trace-config=opentelemetry,resource=service.name=triton",
        "--trace-config=opentelemetry,bsp_schedule_delay=100",
    )
    with TritonServer(repository, ports, folder / "tritonserver.log", extra_arguments=options) as running:
        running.wait_until_ready(progress=lambda _: httpx.get(f"{early_gateway.url}/health/ready"))
        yield running
