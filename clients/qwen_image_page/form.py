"""What a person has filled in, and the request that it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from qwen_image_client import InvalidRequest
from qwen_image_client.integration import guidance_options
from qwen_image_page.brush import Brushed, brushed
from qwen_image_page.sizes import LIKE_THE_PICTURE, Size

Mode: TypeAlias = Literal["text", "picture", "inpaint", "edit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The page's fields, by the names of its components. A size is the text of a `Size` or LIKE_THE_PICTURE.

    Attributes:
        guide_anyway: guidance without a negative prompt, which then is a blank.
        editor: what gr.ImageEditor gives.
    """

    mode: Mode
    prompt: str
    negative_prompt: str
    guide_anyway: bool
    text_size: str
    picture: str | None = None
    picture_strength: float
    picture_size: str = LIKE_THE_PICTURE
    editor: Mapping[str, Any] | None = field(default=None, repr=False)
    inpaint_strength: float
    inpaint_size: str = LIKE_THE_PICTURE
    edit_1: str | None = None
    edit_2: str | None = None
    edit_3: str | None = None
    edit_size: str = LIKE_THE_PICTURE
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
        """The arguments of `AsyncClient.stream`, or of `stream_edit` where the form `edits`.

        Raises:
            InvalidRequest: something is missing, or no number; in words for the person.
        """
        if not self.prompt.strip():
            raise InvalidRequest("The prompt is empty: say what to paint.")
        return {
            "prompt": self.prompt,
            "num_inference_steps": self.num_inference_steps,
            "num_images": int(self.count),
            "seed": read_seed(self.seed),
            **self._guidance(),
            **self._size(),
            **self._pictures(),
        }

    def _guidance(self) -> dict[str, Any]:
        """Where there is no guidance to be the scale isn't sent, since it alone would turn it on."""
        negative_prompt = self.negative_prompt if self.negative_prompt.strip() else None
        if negative_prompt is None and not self.guide_anyway:
            return {}
        return {**guidance_options(negative_prompt, float(self.scale), "on")}

    def _size(self) -> dict[str, int]:
        texts = {
            "text": self.text_size,
            "picture": self.picture_size,
            "inpaint": self.inpaint_size,
            "edit": self.edit_size,
        }
        size = Size.read(texts[self.mode])
        return {} if size is None else {"width": size.width, "height": size.height}

    def _pictures(self) -> dict[str, Any]:
        if self.mode == "picture":
            if self.picture is None:
                raise InvalidRequest("There is no picture to start from: upload one, or paint from text alone.")
            return {"image": self.picture, "strength": float(self.picture_strength)}
        if self.mode == "inpaint":
            work: Brushed = brushed(self.editor)
            return {"image": work.picture, "mask_image": work.mask, "strength": float(self.inpaint_strength)}
        return {"images": self._edited()} if self.edits else {}

    def _edited(self) -> list[str]:
        given = [picture for picture in (self.edit_1, self.edit_2, self.edit_3) if picture is not None]
        if not given:
            raise InvalidRequest("There is no picture to edit: upload one.")
        return given


def read_seed(text: str) -> int | None:
    """None where the server is to draw one.

    Raises:
        InvalidRequest: it is no whole number.
    """
    digits = text.strip()
    if not digits:
        return None
    if not (digits.isascii() and digits.removeprefix("-").isdigit()):
        raise InvalidRequest(f"The seed “{digits}” is no whole number. Leave it empty to have one drawn.")
    return int(digits)
