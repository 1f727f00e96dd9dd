"""What a live server, and live gateways before it, export after they painted, failed, cancelled and refused."""

from __future__ import annotations

import re
import time
import urllib.request
import uuid
from collections import defaultdict

import httpx
import pytest
from tritonclient.utils import InferenceServerException

from qwen_image.launch.tritonserver import TritonServer
from tests.gateway.running import Gateway, gateway_over
from tests.serving.raw import ask, cancel, stream

Exported = dict[str, list[dict[str, str]]]  # of each metric the labels of its series
SHORT = {"height": 64, "width": 64, "num_inference_steps": 2}


@pytest.fixture(scope="session")
def triton_exports(server: TritonServer) -> Exported:
    ask(server, "a star", negative_prompt="", **SHORT)
    list(stream(server, "a star", **SHORT))
    with pytest.raises(InferenceServerException, match="height"):
        ask(server, "a star", height=65)
    request_id = uuid.uuid4().hex
    cancel(server, request_id)
    with pytest.raises(InferenceServerException, match="cancelled"):
        ask(server, "a star", request_id=request_id, **SHORT)
    time.sleep(0.3)  # the models hand their sums over ten times a second
    return series_at(server.metrics_url)


@pytest.fixture(scope="session")
def gateway_exports(server: TritonServer, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Of two gateways: one takes a request at a time, one is too impatient for any."""
    folder = tmp_path_factory.mktemp("gateways")
    found: Exported = defaultdict(list)
    with (
        gateway_over(server.grpc_url, folder, "--max-requests", "1") as narrow,
        gateway_over(server.grpc_url, folder, "--timeout-s", "0.001") as impatient,
    ):
        assert paint(narrow, size="64x64", num_inference_steps=2) == 200
        assert paint(narrow, size="65x64") == 422
        refuse_one(narrow)
        assert paint(impatient) == 504
        for gateway in (narrow, impatient):
            for name, series in series_at(f"{gateway.url}/metrics").items():
                found[name] += series
    return dict(found)


def paint(gateway: Gateway, **values: object) -> int:
    """The status of one request."""
    body = {"prompt": "a star", **values}
    return httpx.post(f"{gateway.url}/v1/images/generations", json=body, timeout=60).status_code


def refuse_one(gateway: Gateway) -> None:
    """While a long picture is painted another is refused; the first one's caller leaves then, which ends it."""
    body = {"prompt": "a star", "size": "512x512", "num_inference_steps": 150, "stream": True}
    with httpx.stream("POST", f"{gateway.url}/v1/images/generations", json=body, timeout=60) as answer:
        assert answer.status_code == 200
        assert paint(gateway) == 429


def series_at(url: str) -> Exported:
    """prometheus_client's own reader would rename counters, as OpenMetrics does and Prometheus does not."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found: Exported = defaultdict(list)
    for line in lines:
        if line and not line.startswith("#"):
            labels = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', line)
            found[re.split(r"[{ ]", line)[0]].append(dict(labels))
    return dict(found)
