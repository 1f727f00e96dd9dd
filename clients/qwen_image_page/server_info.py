"""What the page knows of its server: task, defaults and limits, as the server tells them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from qwen_image_client import AsyncClient, QwenImageClientError
from qwen_image_contract import Limits, default_of

FETCH_TIMEOUT_S = 5.0
_SIDE = 1328  # pixels of Qwen-Image's own default


class ServerUnavailable(Exception):  # noqa: N818 - it says what happened
    """No server responds, or it isn't ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """The task, defaults and limits of one server. What it doesn't tell is the product's own.

    Attributes:
        edits: whether the checkpoint edits images; else it generates from text and from an init image.
        width, height: of an image whose request names no size, in pixels.
        max_images: images of one request.
        max_input_images: input images of one edit.
        size_multiple: sides of an image are multiples of so many pixels.
    """

    edits: bool = False
    width: int = _SIDE
    height: int = _SIDE
    num_inference_steps: int = int(default_of("num_inference_steps"))
    true_cfg_scale: float = default_of("true_cfg_scale")
    max_images: int = 2  # a slider needs a range
    max_input_images: int = 0
    size_multiple: int = 16
    limits: Limits = field(default_factory=Limits)
    strength: float = default_of("strength")


def default_server_info() -> ServerInfo:
    """The product's own defaults, shown until the server has responded."""
    return ServerInfo()


async def fetch_server_info(url: str) -> ServerInfo:
    """Fetches what the server at a gRPC address says of itself.

    Raises:
        ServerUnavailable: it doesn't respond, or isn't ready.
    """
    async with AsyncClient(url, timeout_s=FETCH_TIMEOUT_S) as client:
        if not await client.is_ready():
            raise ServerUnavailable(f"no server is ready at {url}")
        try:
            told = await client.server_info()
        except QwenImageClientError as error:
            raise ServerUnavailable(f"no server is ready at {url}") from error
    defaults, limits = told.defaults, told.limits
    return ServerInfo(
        edits=told.task == "edit",
        width=int(defaults["width"]),
        height=int(defaults["height"]),
        num_inference_steps=int(defaults["num_inference_steps"]),
        true_cfg_scale=defaults["true_cfg_scale"],
        max_images=int(limits["max_rows"]),
        max_input_images=int(limits["max_input_images"]),
        size_multiple=int(limits["size_multiple"]),
        limits=Limits(**{each.name: type(getattr(Limits(), each.name))(limits[each.name]) for each in fields(Limits)}),
        strength=defaults.get("strength", default_of("strength")),
    )
