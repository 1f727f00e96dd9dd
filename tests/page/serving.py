"""A served application with the page in it, and a visitor: a cookie and a heartbeat, without a browser."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import fastapi
import httpx
import uvicorn

from qwen_image.launch.tritonserver import Ports

SESSION = "somebody"


@contextlib.contextmanager
def serving(app: fastapi.FastAPI) -> Iterator[str]:
    """Its address, while it is served from a thread."""
    port = Ports.free().http
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@contextlib.contextmanager
def visiting(address: str, session: str = SESSION) -> Iterator[httpx.Client]:
    """Somebody whose page is open."""
    with httpx.Client(base_url=address, timeout=60) as client:
        client.get("/page/").raise_for_status()
        with client.stream("GET", f"/page/gradio_api/heartbeat/{session}") as heartbeat:
            heartbeat.raise_for_status()
            yield client
