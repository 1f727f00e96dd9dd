"""The command `generate`: reads its options, calls the server, saves the images."""

import sys
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from qwen_image_client.call import new_request_id
from qwen_image_client.cli.arguments import Arguments
from qwen_image_client.cli.console import answer, say
from qwen_image_client.cli.file_names import checked_pattern, prepare_folder, save
from qwen_image_client.client import Client
from qwen_image_client.image import GeneratedImage
from qwen_image_client.png import load_recipe

ONLY_THE_LAST = 2**31 - 1  # steps between decoded previews
_ROW_OPTIONS = (
    "prompt",
    "negative_prompt",
    "width",
    "height",
    "num_inference_steps",
    "true_cfg_scale",
    "seed",
    "sigmas",
)


def generate(arguments: Arguments) -> int:
    """Makes the images and prints the path of each."""
    pattern = checked_pattern(arguments.output, arguments.num_images)
    prepare_folder(pattern)
    options = generation_arguments(arguments)
    request_id = new_request_id()
    if not arguments.quiet:
        say(f"request {request_id}")
    with arguments.client() as client:
        images = _images(client, arguments, {**options, "request_id": request_id})
    for index, image in enumerate(images, start=1):
        answer(save(image, pattern, index))
    return 0


def generation_arguments(arguments: Arguments) -> dict[str, Any]:
    """The arguments of `Client.generate`: the recipe's, if one is given, changed by the options that are given.

    Raises:
        RecipeError: the image carries no recipe.
        OSError: the image can't be opened.
    """
    given = {name: getattr(arguments, name) for name in _ROW_OPTIONS if getattr(arguments, name) is not None}
    recipe: dict[str, Any] = (
        {} if arguments.from_image is None else {**load_recipe(arguments.from_image).as_arguments()}
    )
    if "num_inference_steps" in given or "sigmas" in given:
        # Sigmas are one a step: a new number of steps drops the recipe's sigmas, and the other way round.
        recipe.update(num_inference_steps=None, sigmas=None)
    return {**recipe, **given, "num_images": arguments.num_images}


def _images(client: Client, arguments: Arguments, options: dict[str, Any]) -> Sequence[GeneratedImage]:
    """By step with a progress bar where somebody sees it and the protocol can, else in one go."""
    is_watched = sys.stderr.isatty() and not arguments.no_preview and not arguments.quiet
    if is_watched and client.has_previews:
        return _images_with_progress(client, options)
    return client.generate(**options)


def _images_with_progress(client: Client, options: dict[str, Any]) -> Sequence[GeneratedImage]:
    images: Sequence[GeneratedImage] = []
    with tqdm(unit="step", file=sys.stderr) as bar:
        for preview in client.stream(**options, preview_every=ONLY_THE_LAST):
            bar.total = preview.num_inference_steps
            bar.update(preview.step - bar.n)
            images = preview.images
    return images
