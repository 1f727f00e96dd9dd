"""Whoever leaves a call before its answer ends the work on the server."""

import asyncio
import signal
import subprocess
import sys

import pytest

from qwen_image_client import AsyncClient, Client, ConnectionLost, InvalidRequest, ServerUnreachable, Timeout
from tests.client.scripted_server import scripted_server

SOON_S = 120  # on any machine: a fresh environment compiles its modules first


def test_a_timeout_ends_the_work_and_is_not_retried():
    with scripted_server() as server, Client(server.url) as client, pytest.raises(Timeout) as caught:
        client.generate("a", outputs=(), timeout_s=0.2)
    assert server.cancelled == [server.requests[0]["id"]] == [caught.value.request_id]
    assert caught.value.__notes__ == ["ended on the server: 1 image"]


@pytest.mark.asyncio
async def test_an_async_timeout_ends_the_work():
    with scripted_server() as server:
        async with AsyncClient(server.url) as client:
            with pytest.raises(Timeout):
                await client.generate("a", outputs=(), timeout_s=0.2)
    assert server.cancelled == [server.requests[0]["id"]]


@pytest.mark.asyncio
async def test_cancelling_the_task_ends_the_work():
    with scripted_server() as server:
        async with AsyncClient(server.url) as client:
            task = asyncio.create_task(client.generate("a", outputs=(), request_id="mine"))
            await asyncio.to_thread(server.arrived.wait)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert server.cancelled == ["mine"]


def test_ctrl_c_ends_the_work_and_exits_with_130():
    with scripted_server() as server:
        command = [sys.executable, "-m", "qwen_image_client", "generate", "a", "--url", server.url]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert server.arrived.wait(SOON_S)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SOON_S)
    assert process.returncode == 130
    assert server.cancelled == [server.requests[0]["id"]]
    assert "interrupted; ended on the server: 1 image" in said


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_port_with_nothing_listening_is_unreachable(protocol, closed_port):
    with Client(f"127.0.0.1:{closed_port}", protocol=protocol, retries=1) as client:
        assert not client.is_ready()
        with pytest.raises(ServerUnreachable) as caught:
            client.generate("a", request_id="mine")
        with pytest.raises(Timeout, match="isn't ready after"):
            client.wait_until_ready(0.1)
    assert caught.value.request_id == "mine"


@pytest.mark.asyncio
@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_a_port_with_nothing_listening_is_unreachable_from_asyncio(protocol, closed_port):
    async with AsyncClient(f"127.0.0.1:{closed_port}", protocol=protocol, retries=1) as client:
        assert not await client.is_ready()
        with pytest.raises(ServerUnreachable):
            await client.generate("a")
        with pytest.raises(Timeout, match="isn't ready after"):
            await client.wait_until_ready(0.1)


def test_a_stream_to_nowhere_is_unreachable(closed_port):
    with Client(f"127.0.0.1:{closed_port}", retries=0) as client, pytest.raises(ServerUnreachable):
        next(client.stream("a"))


def test_a_silent_server_times_out_and_the_failed_cancellation_is_told(silent_port, monkeypatch, caplog):
    monkeypatch.setattr("qwen_image_client._dispatcher.CANCEL_TIMEOUT_S", 0.2)
    with Client(f"127.0.0.1:{silent_port}", protocol="http") as client, pytest.raises(Timeout) as caught:
        client.generate("a", request_id="mine", timeout_s=0.3)
    assert caught.value.__notes__[0].startswith("not ended on the server")
    assert "request mine may still run" in caplog.text


def test_a_connection_that_breaks_is_not_retried(hanging_up_port):
    with Client(f"http://127.0.0.1:{hanging_up_port}") as client, pytest.raises(ConnectionLost):
        client.generate("a")


@pytest.mark.asyncio
async def test_a_connection_that_breaks_is_not_retried_from_asyncio(hanging_up_port):
    async with AsyncClient(f"http://127.0.0.1:{hanging_up_port}") as client:
        with pytest.raises(ConnectionLost):
            await client.generate("a")


def test_http_has_no_previews():
    with Client("http://localhost") as client, pytest.raises(InvalidRequest, match="previews need gRPC"):
        next(client.stream("a"))


@pytest.mark.asyncio
async def test_http_has_no_previews_from_asyncio():
    async with AsyncClient("http://localhost") as client:
        with pytest.raises(InvalidRequest, match="previews need gRPC"):
            await anext(client.stream("a"))
