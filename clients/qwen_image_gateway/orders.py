"""A request as the SDK is asked for it: fields and pictures in the words of the tensor contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from qwen_image_client import Task
from qwen_image_client.integration import OnOff
from qwen_image_gateway.errors import unprocessable
from qwen_image_gateway.fields import EditFields, Fields
from qwen_image_gateway.steps import expected_steps, preview_interval


@dataclass(frozen=True, slots=True)
class Order:
    """One request's work.

    Attributes:
        options: keywords of `AsyncClient.generate` or `edit`, without the seed; what was left out isn't in it.
        seed: of the first picture; None: Triton draws each.
        preview_every: steps between previews of a stream.
    """

    task: Task
    prompt: str
    options: dict[str, Any] = field(repr=False)
    num_images: int
    seed: int | None
    preview_every: int

    @property
    def picture_bytes(self) -> int:
        """Of the pictures that come with it, each as often as it is sent to Triton."""
        several = self.options.get("images", ())
        pictures = [*several, *(self.options[name] for name in ("image", "mask_image") if name in self.options)]
        return self.num_images * sum(map(len, pictures))

    def seed_of(self, index: int) -> int | None:
        """The seed of one of its pictures."""
        return None if self.seed is None else self.seed + index


def generation(fields: Fields, guidance: OnOff) -> Order:
    """The order that paints from words; `guidance` is for requests that say nothing of it."""
    steps = expected_steps(fields.num_inference_steps, None, from_picture=False)
    return _order("generate", fields, {}, steps, guidance)


def edit(task: Task, fields: EditFields, pictures: Sequence[bytes], mask: bytes | None, guidance: OnOff) -> Order:
    """The order that changes pictures, as the server's checkpoint does it; `guidance` as in `generation`.

    Raises:
        ApiError: what the checkpoint has no use for.
    """
    if task == "edit":
        return _instructed(fields, pictures, mask, guidance)
    if len(pictures) > 1:
        raise unprocessable(
            f"{len(pictures)} pictures: this server starts from one; several need an edit checkpoint", "image"
        )
    options: dict[str, Any] = {"image": pictures[0]}
    if fields.strength is not None:
        options["strength"] = fields.strength
    if mask is not None:
        options["mask_image"] = mask
    steps = expected_steps(fields.num_inference_steps, fields.strength, from_picture=True)
    return _order("generate", fields, options, steps, guidance)


def _instructed(fields: EditFields, pictures: Sequence[bytes], mask: bytes | None, guidance: OnOff) -> Order:
    if mask is not None:
        raise unprocessable(
            "this server's edit checkpoint takes no mask: say in the prompt what to change, and where", "mask"
        )
    if fields.strength is not None:
        raise unprocessable(
            "this server's edit checkpoint takes no strength: it changes what the prompt says", "strength"
        )
    steps = expected_steps(fields.num_inference_steps, None, from_picture=False)
    return _order("edit", fields, {"images": list(pictures)}, steps, guidance)


def _order(task: Task, fields: Fields, pictures: dict[str, Any], steps: int, guidance: OnOff) -> Order:
    options = dict(fields.guidance(guidance))
    if fields.num_inference_steps is not None:
        options["num_inference_steps"] = fields.num_inference_steps
    if fields.side_lengths is not None:
        options["width"], options["height"] = fields.side_lengths
    return Order(
        task=task,
        prompt=fields.prompt,
        options={**options, **pictures},
        num_images=fields.n or 1,
        seed=fields.seed,
        preview_every=preview_interval(steps, fields.partial_images or 0),
    )
