"""What a call gives back: images with their recipes, and previews on the way to them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from qwen_image_client.errors import InvalidRequest
from qwen_image_client.png import encode_png
from qwen_image_client.recipe import Recipe

_LONGEST_SLUG_BYTES = 120


@dataclass(frozen=True, slots=True)
class GeneratedImage:
    """One image, or the preview of one.

    Attributes:
        image: RGB, width x height; None unless "image" was asked for.
        latents: float32 [16, 1, height/8, width/8]; None unless "latents" was asked for.
        recipe: what it was made from.
        mask: of the image's size, white where it was painted and black where the picture was kept; None unless a
            mask was sent or "mask" asked for.
    """

    image: Image.Image | None = field(repr=False)
    latents: NDArray[np.float32] | None = field(repr=False)
    recipe: Recipe
    mask: Image.Image | None = field(default=None, repr=False)

    @property
    def seed(self) -> int:
        return self.recipe.seed

    def to_png(self) -> bytes:
        """The image as a PNG file with its recipe inside.

        Raises:
            InvalidRequest: the call didn't ask for "image".
        """
        if self.image is None:
            raise InvalidRequest('there is no image to encode: ask for outputs=("image",)')
        return encode_png(self.image, self.recipe)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Writes the PNG, recipe inside; `load_recipe` reads it back.

        Raises:
            FileExistsError: the file is there and `overwrite` is false.
            InvalidRequest: the name doesn't end in .png, or there is no image.
        """
        path = Path(path)
        if path.suffix.lower() != ".png":
            raise InvalidRequest(f"{path} must end in .png: other formats lose the recipe")
        content = self.to_png()
        with path.open("wb" if overwrite else "xb") as file:
            file.write(content)
        return path


@dataclass(frozen=True, slots=True)
class Preview:
    """Where a stream's images stand after a step.

    Attributes:
        step: steps done, of the image that is furthest along.
        num_inference_steps: steps to do, of the image that has most.
        images: one an image asked for, as they would look if they stopped here; see `preview_every`.
        is_final: the images are done; equal to what `generate` gives.
        request_id: ends the work, given to `cancel`.
    """

    step: int
    num_inference_steps: int
    images: Sequence[GeneratedImage] = field(repr=False)
    is_final: bool
    request_id: str


def slug(prompt: str) -> str:
    """The prompt as part of a file's name: its letters and digits in any script, joined by dashes."""
    words = re.sub(r"[^\w]+", "-", prompt.lower()).strip("-_")
    short = words.encode()[:_LONGEST_SLUG_BYTES].decode(errors="ignore").strip("-_")
    return short or "image"
