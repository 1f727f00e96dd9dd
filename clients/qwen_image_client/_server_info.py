"""What a server tells of itself: a parameter of its ensembles' configurations, which holds JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qwen_image_client._errors import ServerError
from qwen_image_contract import TASKS, Task

PARAMETER = "server_info"
_TOO_OLD = "the server doesn't tell of itself: it is older than this client; render its model repository anew"


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server tells of itself.

    Attributes:
        task: the method that its checkpoint is made for.
        family: of its checkpoint, by the name of diffusers' pipeline.
        defaults: of the options, by name; what has no default isn't there. Height and width are in pixels.
        limits: by name, such as `max_side` (pixels), `max_rows` (images of a request) and `size_multiple` (pixels).
    """

    task: Task
    family: str
    defaults: Mapping[str, float]
    limits: Mapping[str, float]


def read_server_info(parameters: Mapping[str, str]) -> ServerInfo:
    """What the parameters of an ensemble's configuration tell. What a newer server tells beside it is left alone.

    Raises:
        ServerError: they tell nothing, or something else.
    """
    if PARAMETER not in parameters:
        raise ServerError(_TOO_OLD)
    try:
        told = json.loads(parameters[PARAMETER])
        if told["task"] not in TASKS:
            raise ValueError(f"task {told['task']!r} is none of {', '.join(TASKS)}")
        return ServerInfo(told["task"], str(told["family"]), _numbers(told["defaults"]), _numbers(told["limits"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ServerError(f"this client can't read what the server tells of itself: {error!r}") from error


def _numbers(told: Mapping[str, Any]) -> Mapping[str, float]:
    return {name: value for name, value in told.items() if isinstance(value, int | float)}
