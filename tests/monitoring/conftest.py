"""What a live server exports after it painted, failed and cancelled."""

from __future__ import annotations

import re
import time
import urllib.request
import uuid
from collections import defaultdict

import pytest
from tritonclient.utils import InferenceServerException

from qwen_image.serving.tritonserver import TritonServer
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
