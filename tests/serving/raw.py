"""Requests to the ensembles through plain tritonclient, as a stranger would write them."""

from __future__ import annotations

import queue
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from numpy.typing import NDArray

from qwen_image_contract import INPUTS

NUMPY = {"BYTES": np.object_, "INT32": np.int32, "INT64": np.int64, "FP32": np.float32}
DTYPES: dict[str, tuple[str, Any]] = {each.name: (each.datatype, NUMPY[each.datatype]) for each in INPUTS}
KINDS = {"b1": "BOOL", "u1": "UINT8", "i4": "INT32", "i8": "INT64", "f4": "FP32", "O8": "BYTES"}
USED = ("used_seed", "used_num_inference_steps", "used_true_cfg_scale", "used_width", "used_height")
Outputs = dict[str, NDArray[Any]]


def columns(prompt: str | bytes | Sequence[str | bytes], **values: Any) -> dict[str, NDArray[Any]]:
    """Arrays of the contract: a single value serves every row, a list has one a row (sigmas: one list for all).

    `input_image` is one file for every row, or a list of files a row, all as long.
    """
    prompts = [prompt] if isinstance(prompt, str | bytes) else list(prompt)
    arrays = {}
    for name, value in {"prompt": prompts, **values}.items():
        if name == "sigmas":
            arrays[name] = np.tile(np.array(value, np.float32), (len(prompts), 1))
            continue
        if name == "input_image" and isinstance(value, list):
            arrays[name] = np.array(value, np.object_).reshape(len(prompts), -1)
            continue
        each = list(value) if isinstance(value, list | tuple) else [value] * len(prompts)
        encoded = [item.encode() if isinstance(item, str) else item for item in each]
        arrays[name] = np.array(encoded, DTYPES[name][1]).reshape(-1, 1)
    return arrays


def inputs_for(client: Any, arrays: dict[str, NDArray[Any]]) -> list[Any]:
    inputs = []
    for name, array in arrays.items():
        each = client.InferInput(name, list(array.shape), DTYPES[name][0])
        each.set_data_from_numpy(array)
        inputs.append(each)
    return inputs


def call_inside(server: Any, model: str, arrays: dict[str, NDArray[Any]]) -> grpcclient.InferResult:
    """One request to a model behind the ensembles; `grant` is one of the arrays, or it comes without."""
    inputs = []
    for name, array in arrays.items():
        kind = KINDS[array.dtype.kind + str(array.dtype.itemsize)]
        inputs.append(grpcclient.InferInput(name, list(array.shape), kind))
        inputs[-1].set_data_from_numpy(array)
    with grpcclient.InferenceServerClient(server.grpc_url) as client:
        return client.infer(model, inputs, client_timeout=60)


def ask(
    server: Any,
    prompt: str | bytes | Sequence[str | bytes],
    *,
    model: str = "qwen_image",
    protocol: str = "grpc",
    outputs: Sequence[str] = ("image",),
    request_id: str = "",
    parameters: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    **values: Any,
) -> Outputs:
    """One request; `options` are others of tritonclient's own."""
    module = grpcclient if protocol == "grpc" else httpclient
    url = server.grpc_url if protocol == "grpc" else server.http_url
    extra = {} if protocol == "grpc" else {"network_timeout": 300.0, "connection_timeout": 300.0}
    with module.InferenceServerClient(url, **extra) as client:
        result = client.infer(
            model,
            inputs_for(module, columns(prompt, **values)),
            outputs=[module.InferRequestedOutput(name) for name in outputs],
            request_id=request_id,
            parameters=parameters,
            **(options or {}),
        )
        return {name: result.as_numpy(name) for name in outputs}


def stream(
    server: Any,
    prompt: str | Sequence[str],
    *,
    model: str = "qwen_image_stream",
    outputs: Sequence[str] = ("image", "step"),
    request_id: str = "",
    options: dict[str, Any] | None = None,
    **values: Any,
) -> Iterator[Outputs]:
    """The responses of one request; an error is raised where it arrives."""
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with grpcclient.InferenceServerClient(server.grpc_url) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer(
            model,
            inputs_for(grpcclient, columns(prompt, **values)),
            outputs=[grpcclient.InferRequestedOutput(name) for name in outputs],
            request_id=request_id,
            enable_empty_final_response=True,
            **(options or {}),
        )
        while True:
            result, error = answers.get(timeout=120)
            if error is not None:
                raise error
            response = result.get_response()
            if response.outputs:
                yield {name: result.as_numpy(name) for name in outputs}
            if response.parameters["triton_final_response"].bool_param:
                return


def under_way(pool: Executor, server: Any, **values: Any) -> Future[Outputs]:
    """A request that has made some steps, and makes more."""
    before = statistics(server, "dit").inference_count
    running = pool.submit(ask, server, "a star", **values)
    while statistics(server, "dit").inference_count < before + 5:
        assert not running.done()
        time.sleep(0.01)
    return running


def settled(server: Any, model: str) -> Any:
    """A model's statistics once they stand still: Triton counts a call when it has answered it."""
    before = statistics(server, model)
    while True:
        time.sleep(0.2)
        now = statistics(server, model)
        if now == before:
            return now
        before = now


def cancel(server: Any, request_id: str) -> int:
    """How many images ended."""
    with grpcclient.InferenceServerClient(server.grpc_url) as client:
        named = grpcclient.InferInput("request_id", [1], "BYTES")
        named.set_data_from_numpy(np.array([request_id.encode()], np.object_))
        return int(client.infer("qwen_image_cancel", [named]).as_numpy("cancelled")[0])


def statistics(server: Any, model: str) -> Any:
    """Triton's own counters of one model: `inference_count` rows in `execution_count` batches."""
    with grpcclient.InferenceServerClient(server.grpc_url) as client:
        return client.get_inference_statistics(model).model_stats[0]


def metrics(server: Any) -> dict[str, float]:
    """The server's Prometheus metrics, each by its name with labels; ours are handed over ten times a second."""
    time.sleep(0.3)
    with urllib.request.urlopen(server.metrics_url, timeout=10) as answer:
        lines = [line for line in answer.read().decode().splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}
