"""PNG files that carry their recipe: as JSON for programs, as text for people."""

from io import BytesIO
from pathlib import Path

from PIL import Image, UnidentifiedImageError
from PIL.PngImagePlugin import PngImageFile, PngInfo

from qwen_image_client.errors import RecipeError
from qwen_image_client.recipe import Recipe

RECIPE_KEY = "qwen_image_recipe"
TEXT_KEY = "parameters"


def encode_png(image: Image.Image, recipe: Recipe) -> bytes:
    """The image as a PNG file, its recipe in two iTXt chunks (UTF-8)."""
    chunks = PngInfo()
    chunks.add_itxt(RECIPE_KEY, recipe.as_json())
    chunks.add_itxt(TEXT_KEY, recipe.as_text())
    buffer = BytesIO()
    image.save(buffer, "PNG", pnginfo=chunks)
    return buffer.getvalue()


def load_recipe(path: str | Path) -> Recipe:
    """The recipe in a PNG that `GeneratedImage.save` or the command line wrote.

    Raises:
        OSError: the file can't be opened.
        RecipeError: it is no PNG, carries no recipe, or one that can't be read.
    """
    try:
        with Image.open(path) as image:
            chunks = image.text if isinstance(image, PngImageFile) else {}
    except UnidentifiedImageError as error:
        raise RecipeError(f"{path} is no image") from error
    if RECIPE_KEY not in chunks:
        raise RecipeError(f"{path} carries no recipe: only PNG files saved by this client do, until edited elsewhere")
    try:
        return Recipe.from_json(chunks[RECIPE_KEY])
    except RecipeError as error:
        raise RecipeError(f"{path}: {error}") from error
