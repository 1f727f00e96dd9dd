"""Edits asked of a server that paints from text, and the other way round: what the error then says."""

from qwen_image_client.call import Call, Models, Task
from qwen_image_client.errors import InvalidRequest, QwenImageClientError

_UNKNOWN_MODEL = "unknown model"  # Triton's words, over gRPC and HTTP
_WORDS: dict[Task, str] = {
    "edit": "this server serves text to image: its checkpoint is no edit checkpoint; use `generate`, with a picture "
    "to start from if you like",
    "generate": "this server edits pictures: its checkpoint is an edit checkpoint; use `edit`",
}


def model_of_the_other_task(error: QwenImageClientError, call: Call, models: Models) -> str | None:
    """The model to look for where the server doesn't know the call's; None where that isn't what went wrong."""
    if _UNKNOWN_MODEL not in error.message.lower():
        return None
    return models.unary("generate" if _task(call, models) == "edit" else "edit")


def wrong_task(error: QwenImageClientError, call: Call, models: Models) -> InvalidRequest:
    """The error for a server that has the model of the other task."""
    return InvalidRequest(_WORDS[_task(call, models)], request_id=error.request_id, status=error.status)


def _task(call: Call, models: Models) -> Task:
    return "edit" if call.model in (models.unary("edit"), models.stream("edit")) else "generate"
