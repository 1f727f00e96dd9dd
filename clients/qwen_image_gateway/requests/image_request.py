"""An image request as the SDK takes it, made from the fields and input images of a caller's request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from qwen_image_client import Task
from qwen_image_client.integration import OnOff
from qwen_image_gateway.errors import unprocessable
from qwen_image_gateway.schemas import EditFields, Fields


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """One caller's request for images.

    Attributes:
        options: keywords of `AsyncClient.generate` or `edit`, without the seed; fields that were left out are missing.
        seed: of the first image; None: Triton draws each.
        num_previews: of a stream, beside the last image.
    """

    task: Task
    prompt: str
    options: dict[str, Any] = field(repr=False)
    num_images: int
    seed: int | None
    num_previews: int

    @classmethod
    def from_generation_fields(cls, fields: Fields, guidance: OnOff) -> ImageRequest:
        """Generates from the prompt alone; `guidance` applies where the fields say nothing of it."""
        return cls._from_fields("generate", fields, {}, guidance)

    @classmethod
    def from_edit_fields(
        cls, task: Task, fields: EditFields, images: Sequence[bytes], mask: bytes | None, guidance: OnOff
    ) -> ImageRequest:
        """Edits images the way that the served checkpoint does; `guidance` as in `from_generation_fields`.

        Raises:
            ApiError: the checkpoint doesn't support one of the fields.
        """
        if task == "edit":
            _check_no_mask_or_strength(fields, mask)
            return cls._from_fields("edit", fields, {"images": list(images)}, guidance)
        if len(images) > 1:
            raise unprocessable(
                f"{len(images)} pictures: this server starts from one; several need an edit checkpoint", "image"
            )
        options: dict[str, Any] = {"image": images[0]}
        if fields.strength is not None:
            options["strength"] = fields.strength
        if mask is not None:
            options["mask_image"] = mask
        return cls._from_fields("generate", fields, options, guidance)

    @classmethod
    def _from_fields(cls, task: Task, fields: Fields, image_options: dict[str, Any], guidance: OnOff) -> ImageRequest:
        options = {**fields.guidance(guidance), **fields.passed_on()}
        if fields.side_lengths is not None:
            options["width"], options["height"] = fields.side_lengths
        return cls(
            task=task,
            prompt=fields.prompt,
            options={**options, **image_options},
            num_images=fields.n or 1,
            seed=fields.seed,
            num_previews=fields.partial_images or 0,
        )

    @property
    def input_bytes(self) -> int:
        """Bytes of the input images, each counted as often as it is sent to Triton."""
        references = self.options.get("images", ())
        images = [*references, *(self.options[name] for name in ("image", "mask_image") if name in self.options)]
        return self.num_images * sum(map(len, images))

    def seed_of(self, index: int) -> int | None:
        """The seed of one of the images."""
        return None if self.seed is None else self.seed + index


def _check_no_mask_or_strength(fields: EditFields, mask: bytes | None) -> None:
    if mask is not None:
        raise unprocessable(
            "this server's edit checkpoint takes no mask: say in the prompt what to change, and where", "mask"
        )
    if fields.strength is not None:
        raise unprocessable(
            "this server's edit checkpoint takes no strength: it changes what the prompt says", "strength"
        )
