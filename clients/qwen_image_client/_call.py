"""One inference call as every transport takes and answers it: named numpy arrays, nothing of gRPC or HTTP."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qwen_image_client._errors import InvalidRequest, QwenImageClientError
from qwen_image_contract import Task

Tensors: TypeAlias = Mapping[str, NDArray[Any]]

_UNKNOWN_MODEL = "unknown model"  # in Triton's message, over gRPC and HTTP
_HINTS: dict[Task, str] = {
    "edit": "this server serves text to image: its checkpoint is no edit checkpoint; use `generate`, with a picture "
    "to start from if you like",
    "generate": "this server edits pictures: its checkpoint is an edit checkpoint; use `edit`",
}


def new_request_id() -> str:
    """A random id, so that no client cancels another's request by accident."""
    return uuid.uuid4().hex


def short_id(request_id: str) -> str:
    """The first half of an id: enough to find the request in a log, and not enough to cancel it."""
    return request_id[: (len(request_id) + 1) // 2]


@dataclass(frozen=True, slots=True)
class Call:
    """One request to one model.

    Attributes:
        model: the Triton model's name.
        inputs: the input tensors, batch dimension first.
        outputs: the names of the outputs wanted; what isn't requested isn't computed.
        request_id: travels with the request; `cancel` takes it.
    """

    model: str
    inputs: Tensors
    outputs: tuple[str, ...]
    request_id: str


@dataclass(frozen=True, slots=True)
class Models:
    """The names of the models that serve one checkpoint, all derived from the first."""

    generate: str = "qwen_image"

    def unary(self, task: Task) -> str:
        """The model that answers once."""
        return f"{self.generate}_edit" if task == "edit" else self.generate

    def stream(self, task: Task) -> str:
        """The model that answers after every step."""
        return f"{self.unary(task)}_stream"

    @property
    def cancel(self) -> str:
        return f"{self.generate}_cancel"

    def cancel_call(self, request_id: str) -> Call:
        """The call that cancels a request by its id; its output `cancelled` counts the images cancelled, INT32 [1]."""
        ids = np.array([request_id.encode()], dtype=np.object_)  # [1]: this model has no batch dimension
        return Call(self.cancel, {"request_id": ids}, ("cancelled",), request_id)


def is_unknown_model(error: QwenImageClientError) -> bool:
    """Whether the server lacks the model, or hasn't loaded it."""
    return _UNKNOWN_MODEL in error.message.lower()


def find_other_model(error: QwenImageClientError, call: Call, models: Models) -> str | None:
    """The other task's model, to look for where the server doesn't know the call's; None for any other error."""
    if not is_unknown_model(error):
        return None
    return models.unary("generate" if _task(call, models) == "edit" else "edit")


def wrong_model_hint(error: QwenImageClientError, call: Call, models: Models) -> InvalidRequest:
    """The error where the server has the model of the other task only: what to use there."""
    return InvalidRequest(_HINTS[_task(call, models)], request_id=error.request_id, status=error.status)


def _task(call: Call, models: Models) -> Task:
    return "edit" if call.model in (models.unary("edit"), models.stream("edit")) else "generate"
