"""What the samplers' metrics say of the work that requests left in Triton."""

from __future__ import annotations

import time

from qwen_image.launch.tritonserver import TritonServer
from tests.serving.raw import metrics


def of_samplers(server: TritonServer, name: str) -> float:
    """The sum of both."""
    return sum(value for line, value in metrics(server).items() if line.startswith(f"{name}{{"))


def wait_until_idle(server: TritonServer) -> None:
    while of_samplers(server, "qwen_image_images_in_flight") > 0:
        time.sleep(0.05)
