"""What an application's routes share."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from qwen_image_client.call import Task
from qwen_image_gateway.errors import ApiError, invalid
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
        served = MODELS.unary(task)
        if model not in (None, served):
            raise ApiError(404, f"model={model!r} isn't served; {served} is", "model_not_found", "model")
        return task


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
        raise invalid(
            "this server's checkpoint edits pictures: send one to /v1/images/edits", "model", "wrong_checkpoint"
        )
