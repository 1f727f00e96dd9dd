"""Calling another model of this server: Triton's business logic scripting, errors as ours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray

from qwen_image.errors import InvalidRequest, NotHeld, QwenImageError, Unavailable
from qwen_image.serving.backend import LOG
from qwen_image.serving.granted import GRANT, grant_column, grants_of_this_server

KINDS = {"INVALID_ARG": InvalidRequest, "UNAVAILABLE": Unavailable, "NOT_FOUND": NotHeld}
STATUS_IN_WORDS = re.compile(r" \[[A-Z_]+\]$")  # that `error_response` of the model called put there
SHUTTING_DOWN = "Server not ready"  # Triton's words to a model that calls another while the server stops
NOT_READY = ("is not ready", "has no available versions", "is not found")  # and of a model that is not loaded
PROCESS_LOST = "is not healthy"  # and of one whose process is dead, or stopped


async def call(
    model: str, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str], request_id: str
) -> list[NDArray[Any]]:
    """The outputs of one call. InvalidRequest, Unavailable or NotHeld as the model said; else QwenImageError."""
    rows = len(next(iter(inputs.values())))
    granted = {**inputs, GRANT: grant_column([_unlimited_grant()] * rows)}
    return _outputs(model, await _request(model, granted, outputs, request_id).async_exec(), outputs)


def call_plan(
    model: str, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str], request_id: str
) -> list[NDArray[Any]]:
    """The same of a model on Triton's TensorRT backend, which checks no grant, by one whose `execute` may block."""
    return _outputs(model, _request(model, inputs, outputs, request_id).exec(), outputs)


@cache
def _unlimited_grant() -> bytes:
    return grants_of_this_server().unlimited


def _request(model: str, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str], request_id: str) -> Any:
    return pb_utils.InferenceRequest(
        model_name=model,
        request_id=request_id,
        inputs=[pb_utils.Tensor(name, value) for name, value in inputs.items()],
        requested_output_names=list(outputs),
        preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0),
    )


def _outputs(model: str, response: Any, outputs: Sequence[str]) -> list[NDArray[Any]]:
    if response.has_error():
        raise _error(model, response.error())
    return [pb_utils.get_output_tensor_by_name(response, name).as_numpy() for name in outputs]


def _error(model: str, error: Any) -> QwenImageError:
    """Triton's own words tell of the server's inside (names of shared memory, say): they go to the log alone."""
    message = error.message()
    if said := STATUS_IN_WORDS.search(message):
        kinds = {getattr(pb_utils.TritonError, status): kind for status, kind in KINDS.items()}
        return kinds.get(error.code(), QwenImageError)(message[: said.start()])
    LOG.warning("a call of %s failed in Triton: %s", model, message)
    if SHUTTING_DOWN in message:
        return Unavailable("the server is shutting down; send the request again elsewhere")
    if PROCESS_LOST in message:
        return Unavailable(
            f"the process of the model {model} is dead or does not answer, and the server must be started again; "
            "send the request again then, or elsewhere"
        )
    if any(words in message for words in NOT_READY):
        return Unavailable(f"the model {model} is not ready; send the request again later")
    return QwenImageError(f"a call of the model {model} failed; the server's log has the reason")
