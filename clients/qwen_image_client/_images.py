"""What a call returns: images and previews, and the files that carry their recipes."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from PIL.PngImagePlugin import PngImageFile, PngInfo

from qwen_image_client._errors import InvalidRequest, RecipeError
from qwen_image_client._recipe import Recipe

RECIPE_KEY = "qwen_image_recipe"
TEXT_KEY = "parameters"
DESCRIPTION_TAG = 0x010E  # EXIF's ImageDescription, ASCII
MOST_EXIF_BYTES = 65_000  # in a JPEG; a recipe beyond it is left out
FULL_COLOUR_QUALITY = 90  # from it on colours have the resolution of brightness (4:4:4)
_LONGEST_SLUG_BYTES = 120


@dataclass(frozen=True, slots=True)
class GeneratedImage:
    """One image, or the preview of one.

    Attributes:
        image: RGB, width x height; None unless "image" was requested.
        latents: float32 [16, 1, height/8, width/8]; None unless "latents" was requested.
        recipe: what it was made from.
        mask: of the image's size, white where it was generated and black where the input was kept; None unless
            a mask was sent or "mask" requested.
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
            InvalidRequest: the call didn't request "image".
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
        images: one an image requested, as they would look if they stopped here; see `preview_every`.
        is_final: the images are done; equal to what `generate` gives.
        request_id: for `cancel`.
    """

    step: int
    num_inference_steps: int
    images: Sequence[GeneratedImage] = field(repr=False)
    is_final: bool
    request_id: str


def slug(prompt: str) -> str:
    """The prompt as part of a file's name: its letters and digits in any script, joined by dashes."""
    text = re.sub(r"[^\w]+", "-", prompt.lower()).strip("-_")
    short = text.encode()[:_LONGEST_SLUG_BYTES].decode(errors="ignore").strip("-_")
    return short or "image"


def encode_png(image: Image.Image, recipe: Recipe) -> bytes:
    """The image as a PNG file, its recipe in two iTXt chunks (UTF-8)."""
    chunks = PngInfo()
    chunks.add_itxt(RECIPE_KEY, recipe.as_json())
    chunks.add_itxt(TEXT_KEY, recipe.as_text())
    buffer = BytesIO()
    image.save(buffer, "PNG", pnginfo=chunks)
    return buffer.getvalue()


def encode_lossy(image: Image.Image, recipe: Recipe, file_format: str, quality: int) -> bytes:
    """The image as a JPEG or WEBP file of a quality from 0 to 100, its recipe in EXIF's ImageDescription."""
    exif = Image.Exif()
    exif[DESCRIPTION_TAG] = json.dumps(json.loads(recipe.as_json()))  # ASCII, as EXIF wants it
    description = exif.tobytes()
    if len(description) > MOST_EXIF_BYTES:
        description = b""
    buffer = BytesIO()
    full_colour = {"subsampling": "4:4:4"} if file_format == "JPEG" and quality >= FULL_COLOUR_QUALITY else {}
    image.save(buffer, file_format, quality=quality, exif=description, **full_colour)
    return buffer.getvalue()


def load_recipe(path: str | Path) -> Recipe:
    """The recipe in a PNG that `GeneratedImage.save` or the command line wrote, or in a gateway's PNG, JPEG or WebP.

    Raises:
        OSError: the file can't be opened.
        RecipeError: it is no image, carries no recipe, or one that can't be read.
    """
    try:
        with Image.open(path) as image:
            if isinstance(image, PngImageFile):
                text = image.text.get(RECIPE_KEY)
            else:
                description = str(image.getexif().get(DESCRIPTION_TAG))  # a camera's, in other files
                text = description if description.startswith('{"version"') else None
    except UnidentifiedImageError as error:
        raise RecipeError(f"{path} is no image") from error
    if text is None:
        raise RecipeError(f"{path} carries no recipe: only files made by this client or gateway do, until edited")
    try:
        return Recipe.from_json(text)
    except RecipeError as error:
        raise RecipeError(f"{path}: {error}") from error
