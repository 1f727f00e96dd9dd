"""What an application's routes share."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from qwen_image_client import Task
from qwen_image_gateway.errors import ApiError, unprocessable
from qwen_image_gateway.settings import GatewaySettings
from qwen_image_gateway.triton import MODELS, Triton


@dataclass(frozen=True, slots=True)
class Service:
    """One gateway at work.

    Attributes:
        began_s: when, as seconds since 1970: the age of its model, as far as callers can tell.
    """

    settings: GatewaySettings
    triton: Triton
    began_s: int

    async def task(self, model: str | None) -> Task:
        """What the served model is made for.

        Raises:
            ApiError: the caller names another model, or none is ready.
        """
        task = await self.triton.task()
        names = self.names_of(task)
        if model is not None and model not in names:
            served = f"{names[0]} is" if len(names) == 1 else f"{', '.join(names)} are its names"
            raise ApiError(404, f"model={model!r} isn't served; {served}", "model_not_found", "model")
        return task

    def names_of(self, task: Task) -> tuple[str, ...]:
        """What callers may call the model: first its ensemble's name in Triton."""
        return MODELS.unary(task), *self.settings.served_model_names


def service_of(request: Request) -> Service:
    """The gateway that a request came to."""
    service: Service = request.app.state.service
    return service


def check_paints(task: Task) -> None:
    """Refuses to paint from words alone where the checkpoint edits.

    Raises:
        ApiError: what to do.
    """
    if task == "edit":
        raise unprocessable(
            "this server's checkpoint edits pictures: send one to /v1/images/edits", "model", "wrong_checkpoint"
        )
