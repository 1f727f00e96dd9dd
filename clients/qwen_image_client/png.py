"""Files that carry their recipe: PNG as JSON for programs and as text for people, JPEG and WebP as JSON in EXIF."""

import json
from io import BytesIO
from pathlib import Path

from PIL import Image, UnidentifiedImageError
from PIL.PngImagePlugin import PngImageFile, PngInfo

from qwen_image_client.errors import RecipeError
from qwen_image_client.recipe import Recipe

RECIPE_KEY = "qwen_image_recipe"
TEXT_KEY = "parameters"
DESCRIPTION_TAG = 0x010E  # EXIF's ImageDescription, ASCII
MOST_EXIF_BYTES = 65_000  # in a JPEG; a recipe beyond it is left out
FULL_COLOUR_QUALITY = 90  # from it on colours have the resolution of brightness (4:4:4)


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
