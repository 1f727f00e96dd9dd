"""The form as the user has filled it in, and the SDK's arguments that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from qwen_image_client import InvalidRequest
from qwen_image_client.integration import guidance_options
from qwen_image_page.brush import read_brush
from qwen_image_page.sizes import LIKE_INPUT_IMAGE, Size

Mode: TypeAlias = Literal["text", "picture", "inpaint", "edit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The page's fields, by the names of its components. A size is the text of a `Size` or LIKE_INPUT_IMAGE.

    Attributes:
        guide_anyway: whether guidance is on without a negative prompt, which then is a blank.
        editor: the value of gr.ImageEditor.
    """

    mode: Mode
    prompt: str
    negative_prompt: str
    guide_anyway: bool
    text_size: str
    init_image: str | None = None
    init_strength: float
    init_size: str = LIKE_INPUT_IMAGE
    editor: Mapping[str, Any] | None = field(default=None, repr=False)
    inpaint_strength: float
    inpaint_size: str = LIKE_INPUT_IMAGE
    edit_1: str | None = None
    edit_2: str | None = None
    edit_3: str | None = None
    edit_size: str = LIKE_INPUT_IMAGE
    steps: float
    scale: float
    seed: str
    count: float

    @property
    def num_inference_steps(self) -> int:
        return int(self.steps)

    @property
    def edits(self) -> bool:
        return self.mode == "edit"

    def arguments(self) -> dict[str, Any]:
        """The arguments of `AsyncClient.stream`, or of `stream_edit` if the form `edits`.

        Raises:
            InvalidRequest: something is missing, or is no number; its message is for the user.
        """
        if not self.prompt.strip():
            raise InvalidRequest("The prompt is empty: say what to paint.")
        return {
            "prompt": self.prompt,
            "num_inference_steps": self.num_inference_steps,
            "num_images": int(self.count),
            "seed": parse_seed(self.seed),
            **self._guidance(),
            **self._size(),
            **self._input_images(),
        }

    def _guidance(self) -> dict[str, Any]:
        """Without guidance no scale is sent: it alone would turn guidance on."""
        negative_prompt = self.negative_prompt if self.negative_prompt.strip() else None
        if negative_prompt is None and not self.guide_anyway:
            return {}
        return {**guidance_options(negative_prompt, float(self.scale), "on")}

    def _size(self) -> dict[str, int]:
        texts = {
            "text": self.text_size,
            "picture": self.init_size,
            "inpaint": self.inpaint_size,
            "edit": self.edit_size,
        }
        size = Size.parse(texts[self.mode])
        return {} if size is None else {"width": size.width, "height": size.height}

    def _input_images(self) -> dict[str, Any]:
        if self.mode == "picture":
            if self.init_image is None:
                raise InvalidRequest("There is no picture to start from: upload one, or paint from text alone.")
            return {"image": self.init_image, "strength": float(self.init_strength)}
        if self.mode == "inpaint":
            brushed = read_brush(self.editor)
            return {"image": brushed.image, "mask_image": brushed.mask, "strength": float(self.inpaint_strength)}
        return {"images": self._images_to_edit()} if self.edits else {}

    def _images_to_edit(self) -> list[str]:
        images = [image for image in (self.edit_1, self.edit_2, self.edit_3) if image is not None]
        if not images:
            raise InvalidRequest("There is no picture to edit: upload one.")
        return images


def parse_seed(text: str) -> int | None:
    """None: the server draws one.

    Raises:
        InvalidRequest: it isn't a whole number.
    """
    digits = text.strip()
    if not digits:
        return None
    if not (digits.isascii() and digits.removeprefix("-").isdigit()):
        raise InvalidRequest(f"The seed “{digits}” is no whole number. Leave it empty to have one drawn.")
    return int(digits)
