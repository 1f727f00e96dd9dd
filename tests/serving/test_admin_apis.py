"""What Triton offers to administrators is closed to callers, over both protocols; what callers need is open."""

from __future__ import annotations

import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

PROTOCOLS = {"http": (httpclient, "http_url"), "grpc": (grpcclient, "grpc_url")}


@pytest.fixture(params=PROTOCOLS)
def client(request, server):
    module, url = PROTOCOLS[request.param]
    with module.InferenceServerClient(getattr(server, url)) as client:
        yield client


@pytest.fixture
def secret(server, client):
    """What other users of the machine see in the process list, as headers that a caller could send."""
    option = next(each for each in server.process.args if each.startswith("--http-restricted-api="))
    name, _, value = option.rpartition(":")[2].partition("=")
    return {name: value.strip(), f"triton-grpc-protocol-{name}": value.strip()}


def test_no_caller_registers_the_servers_own_shared_memory(server, client, secret):
    region = next(server.shared_memory_files()).name
    for headers in (None, secret):
        with pytest.raises(InferenceServerException, match="restricted"):
            client.register_system_shared_memory("mine", f"/{region}", 64, headers=headers)


def test_no_caller_changes_traces_logs_or_models(client):
    for change in (
        client.get_system_shared_memory_status,
        client.get_cuda_shared_memory_status,
        lambda: client.update_trace_settings(settings={"trace_file": "/tmp/trace"}),
        lambda: client.update_log_settings({"log_file": "/tmp/log"}),
        client.get_model_repository_index,
        lambda: client.unload_model("dit"),
    ):
        with pytest.raises(InferenceServerException, match="restricted"):
            change()


def test_health_metadata_configuration_and_statistics_are_open(client):
    assert client.is_server_ready()
    assert client.is_model_ready("qwen_image")
    assert client.get_server_metadata()
    assert client.get_model_config("qwen_image")
    assert client.get_inference_statistics("dit")
