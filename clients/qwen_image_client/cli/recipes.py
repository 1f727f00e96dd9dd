"""A saved image's recipe as options of a command."""

from pathlib import Path
from typing import Any

from qwen_image_client.cli.console import say
from qwen_image_client.cli.sent_files import SentFiles
from qwen_image_client.errors import RecipeError
from qwen_image_client.pictures import sha256
from qwen_image_client.png import load_recipe
from qwen_image_client.recipe import Recipe


def recipe_options(path: Path, command: str, files: SentFiles) -> dict[str, Any]:
    """The arguments of the client's method that the recipe stands for.

    Raises:
        RecipeError: the image carries no recipe, that of another command, or its pictures aren't given.
        OSError: the image can't be opened.
    """
    recipe = load_recipe(path)
    if recipe.task != command:
        raise RecipeError(f"{path} is of another command: use `qwen-image {recipe.task} --from-image {path}`")
    _tell_of_other_pictures(recipe, files)
    try:
        if recipe.task == "edit":
            return {**recipe.as_edit_arguments(files.pictures)}
        return {**recipe.as_arguments(**files.as_arguments(command))}
    except RecipeError as error:
        raise RecipeError(f"{path}: {error}") from error


def _tell_of_other_pictures(recipe: Recipe, files: SentFiles) -> None:
    """Another picture is a change like any other, but one that isn't seen in the command."""
    used = (*recipe.image_sha256, *([recipe.mask_sha256] if recipe.mask_sha256 else []))
    sent = (*files.pictures, *([files.mask] if files.mask else []))
    for name, content in zip(files.names, sent, strict=True):
        if used and sha256(content) not in used:
            say(f"note: {name} isn't what the recipe was made from")
