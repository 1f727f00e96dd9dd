"""Callers who connect and send nothing, or too slowly, keep nobody out."""

from __future__ import annotations

import contextlib
import socket
from urllib.parse import urlsplit

import httpx

from tests.gateway.running import gateway_over

MOST = 20


def test_slow_headers_keep_nobody_out_and_fill_no_log(tmp_path, monkeypatch):
    """The limits are set in the environment."""
    monkeypatch.setenv("QWEN_IMAGE_GATEWAY_MAX_CONNECTIONS", str(MOST))
    monkeypatch.setenv("QWEN_IMAGE_GATEWAY_HEADER_TIMEOUT_S", "2")
    with gateway_over("localhost:9", tmp_path) as gateway, contextlib.ExitStack() as stack:
        host, port = urlsplit(gateway.url).netloc.split(":")
        slow = []
        for number in range(5 * MOST):
            slow.append(stack.enter_context(socket.create_connection((host, int(port)), timeout=60)))
            slow[-1].sendall(b"GET /health HTTP/1.1\r\nhost: local")
            if number % MOST == 0:
                assert httpx.get(f"{gateway.url}/health").status_code == 200
        for each in slow:
            with contextlib.suppress(ConnectionResetError):
                assert each.recv(1) == b"", "it was closed without an answer"
        assert httpx.get(f"{gateway.url}/health").status_code == 200
        log = gateway.log_path.read_text()
    assert f"listens on {gateway.url}" in log
    assert "no request's headers came in time" in log
    assert log.count("a connection was closed") < MOST
