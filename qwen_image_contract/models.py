"""The public models: one ensemble for each task, and for streams of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Task: TypeAlias = Literal["generate", "edit"]
TASKS: tuple[Task, ...] = get_args(Task)


@dataclass(frozen=True, slots=True)
class Ensemble:
    """One public model.

    Attributes:
        task: what it does with a request; a server's checkpoint has one task.
        is_stream: it answers after every step.
    """

    name: str
    task: Task
    is_stream: bool = False


ENSEMBLES = (
    Ensemble("qwen_image", "generate"),
    Ensemble("qwen_image_stream", "generate", is_stream=True),
    Ensemble("qwen_image_edit", "edit"),
    Ensemble("qwen_image_edit_stream", "edit", is_stream=True),
)
