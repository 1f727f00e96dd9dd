"""What a server tells of itself, by the parameters of an ensemble's configuration."""

import asyncio
import json

import pytest
from tritonclient.grpc import service_pb2

from qwen_image_client import (
    AsyncClient,
    Client,
    ServerError,
    ServerInfo,
    ServerUnavailable,
    ServerUnreachable,
    Timeout,
    _grpc,
)
from tests.client.scripted_server import refusal, scripted_server

TOLD = {
    "task": "edit",
    "family": "QwenImageEditPipeline",
    "defaults": {"height": 1024, "true_cfg_scale": 4.0},
    "limits": {"max_rows": 8},
}
INFO = ServerInfo("edit", "QwenImageEditPipeline", {"height": 1024, "true_cfg_scale": 4.0}, {"max_rows": 8})
UNKNOWN = refusal(404, "Request for unknown model: 'qwen_image' is not found")
LOADING = refusal(503, "Request for unknown model: 'qwen_image_edit' has no available versions")


def config(told=None):
    parameters = {} if told is None else {"server_info": {"string_value": told}}
    return 200, json.dumps({"name": "qwen_image", "parameters": parameters}).encode()


def ask(generate, edit=UNKNOWN, **options):
    configs = {"qwen_image": generate, "qwen_image_edit": edit}
    with scripted_server(configs=configs) as server, Client(server.url, **options) as client:
        return client.server_info()


def test_either_ensemble_tells_the_server():
    text = json.dumps(TOLD)
    assert ask(config(text)) == ask(UNKNOWN, config(text)) == INFO


def test_the_async_client_asks_alike():
    async def ask_on_asyncio():
        with scripted_server(configs={"qwen_image": UNKNOWN, "qwen_image_edit": config(json.dumps(TOLD))}) as server:
            async with AsyncClient(server.url) as client:
                return await client.server_info()

    assert asyncio.run(ask_on_asyncio()) == INFO


def test_grpc_carries_the_same_parameters():
    response = service_pb2.ModelConfigResponse()
    response.config.parameters["server_info"].string_value = "{}"
    assert _grpc.parameters(response) == {"server_info": "{}"}


def test_what_a_newer_server_tells_beside_it_is_left_alone():
    newer = {**TOLD, "adapters": ["oil"], "limits": {"max_rows": 8, "formats": ["png"]}}
    assert ask(config(json.dumps(newer))) == INFO


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (config(), "doesn't tell of itself: it is older than this client"),
        (config("{"), "can't read what the server tells"),
        (config("[]"), "can't read what the server tells"),
        (config(json.dumps({**TOLD, "task": "sing"})), "'sing' is none of generate, edit"),
        (config(json.dumps({"task": "edit"})), "family"),
        ((200, b"<html>"), "no model configuration"),
        (UNKNOWN, "unknown model: 'qwen_image'"),
    ],
)
def test_a_server_that_tells_nothing_to_use_is_a_server_error(answer, words):
    with pytest.raises(ServerError, match=words):
        ask(answer)


def test_a_server_that_loads_its_model_is_unavailable():
    with pytest.raises(ServerUnavailable, match="no available versions"):
        ask(UNKNOWN, LOADING, retries=0)


def test_a_server_that_is_not_there_is_unreachable(closed_port):
    for protocol in ("grpc", "http"):
        with (
            Client(f"{protocol}://127.0.0.1:{closed_port}", retries=0) as client,
            pytest.raises(ServerUnreachable),
        ):
            client.server_info()


def test_a_server_that_does_not_answer_times_out(silent_port):
    with Client(f"http://127.0.0.1:{silent_port}") as client, pytest.raises(Timeout):
        client.server_info(timeout_s=0.2)
