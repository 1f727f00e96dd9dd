"""Calling another model of this server: Triton's business logic scripting, errors as ours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray

from qwen_image.errors import InvalidRequest, NotHeld, QwenImageError, Unavailable

KINDS = {"INVALID_ARG": InvalidRequest, "UNAVAILABLE": Unavailable, "NOT_FOUND": NotHeld}
STATUS_IN_WORDS = re.compile(r" \[[A-Z_]+\]$")  # that `error_response` of the model called put there
SHUTTING_DOWN = "Server not ready"  # Triton's words to a model that calls another while the server stops


async def call(
    model: str, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str], request_id: str
) -> list[NDArray[Any]]:
    """The outputs of one call. InvalidRequest, Unavailable or NotHeld as the model said; else QwenImageError."""
    return _outputs(await _request(model, inputs, outputs, request_id).async_exec(), outputs)


def call_and_wait(
    model: str, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str], request_id: str
) -> list[NDArray[Any]]:
    """The same, for a model whose `execute` may block."""
    return _outputs(_request(model, inputs, outputs, request_id).exec(), outputs)


def _request(model: str, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str], request_id: str) -> Any:
    return pb_utils.InferenceRequest(
        model_name=model,
        request_id=request_id,
        inputs=[pb_utils.Tensor(name, value) for name, value in inputs.items()],
        requested_output_names=list(outputs),
        preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0),
    )


def _outputs(response: Any, outputs: Sequence[str]) -> list[NDArray[Any]]:
    if response.has_error():
        raise _error(response.error())
    return [pb_utils.get_output_tensor_by_name(response, name).as_numpy() for name in outputs]


def _error(error: Any) -> QwenImageError:
    if SHUTTING_DOWN in error.message():
        return Unavailable("the server is shutting down; send the request again elsewhere")
    kinds = {getattr(pb_utils.TritonError, status): kind for status, kind in KINDS.items()}
    return kinds.get(error.code(), QwenImageError)(STATUS_IN_WORDS.sub("", error.message()))
