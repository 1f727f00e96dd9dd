"""A request to the gateway, and its answer as a load test looks at it."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

TIMEOUT_S = 120.0
SETTLE_S = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers and body."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def pictures(self) -> list[dict[str, Any]]:
        if self.status != 200:
            raise RuntimeError(f"status {self.status}: {self.text}")
        return list(json.loads(self.text)["data"])

    @property
    def events(self) -> list[dict[str, Any]]:
        """Of a stream."""
        data = [line.removeprefix("data: ") for line in self.text.splitlines() if line.startswith("data: {")]
        return [json.loads(each) for each in data]

    @property
    def refusal(self) -> str | None:
        """How it was refused for want of room; None if it wasn't."""
        if self.status == 429:
            return "refused" if "retry-after" in self.headers else "429 without Retry-After"
        error = self.events[-1].get("error") if self.text.startswith("event:") else None
        return "refused in the stream" if error and error.get("type") == "rate_limit_error" else None

    @property
    def retry_after_s(self) -> float:
        return float(self.headers.get("retry-after", 0))


async def asked(http: aiohttp.ClientSession, body: Mapping[str, Any] | aiohttp.FormData) -> Answer:
    """One request, answered to its end; a form is an edit."""
    timeout = aiohttp.ClientTimeout(TIMEOUT_S)
    if isinstance(body, aiohttp.FormData):
        sending = http.post("/v1/images/edits", data=body, timeout=timeout)
    else:
        sending = http.post("/v1/images/generations", json=body, timeout=timeout)
    async with sending as answer:
        return Answer(answer.status, answer.headers, await answer.text())


def images_left(metrics_url: str) -> float:
    """In flight in Triton some seconds after everybody has gone."""
    deadline = time.monotonic() + SETTLE_S
    while (images := _images_in_flight(metrics_url)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return images


def _images_in_flight(metrics_url: str) -> float:
    with urllib.request.urlopen(metrics_url, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("qwen_image_images_in_flight{"))
