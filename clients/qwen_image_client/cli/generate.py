"""The commands `generate` and `edit`: read their options, call the server, save the images."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from qwen_image_client.call import new_request_id
from qwen_image_client.cli.arguments import Arguments
from qwen_image_client.cli.console import answer, say
from qwen_image_client.cli.file_names import checked_mask_name, checked_pattern, prepare_folder, save, save_mask
from qwen_image_client.cli.recipes import recipe_options
from qwen_image_client.cli.sent_files import SentFiles
from qwen_image_client.client import Client
from qwen_image_client.errors import InvalidRequest
from qwen_image_client.guidance import guidance_options
from qwen_image_client.image import GeneratedImage

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
    "strength",
)


def make(arguments: Arguments) -> int:
    """Makes the images of either command and prints the path of each."""
    pattern = checked_pattern(arguments.output, arguments.num_images)
    prepare_folder(pattern)
    mask_name = checked_mask_name(arguments.save_mask)
    files = SentFiles.read(arguments.images, arguments.mask)
    options = {**generation_arguments(arguments, files), "request_id": new_request_id()}
    if not arguments.quiet:
        say(f"request {options['request_id']}")
    try:
        with arguments.client() as client:
            images = _images(client, arguments, options)
    except InvalidRequest as error:
        raise files.named_in(error) from error
    for index, image in enumerate(images, start=1):
        answer(save(image, pattern, index))
    _save_mask(images, mask_name)
    return 0


def generation_arguments(arguments: Arguments, files: SentFiles) -> dict[str, Any]:
    """The arguments of the client's method: the recipe's, if one is given, changed by the options that are given.

    Raises:
        RecipeError: the image carries no recipe, or that of another command.
        OSError: the image can't be opened.
    """
    given = {name: getattr(arguments, name) for name in _ROW_OPTIONS if getattr(arguments, name) is not None}
    pictures = files.as_arguments(arguments.command)
    recipe = {} if arguments.from_image is None else recipe_options(arguments.from_image, arguments.command, files)
    if "num_inference_steps" in given or "sigmas" in given:
        # Sigmas are one a step: a new number of steps drops the recipe's sigmas, and the other way round.
        recipe.update(num_inference_steps=None, sigmas=None)
    options = {**recipe, **given}
    # A recipe says what guidance there was, also where there was none.
    default = arguments.default_guidance if arguments.from_image is None else "off"
    guidance = guidance_options(options.get("negative_prompt"), options.get("true_cfg_scale"), default)
    return {**options, **guidance, **pictures, "num_images": arguments.num_images}


def _images(client: Client, arguments: Arguments, options: Mapping[str, Any]) -> Sequence[GeneratedImage]:
    """By step with a progress bar where somebody sees it and the model can, else in one go."""
    is_edit = arguments.command == "edit"
    is_watched = sys.stderr.isatty() and not arguments.no_preview and not arguments.quiet
    if is_watched and client.has_previews and arguments.save_mask is None:  # a stream has no mask
        return _images_with_progress(client.stream_edit if is_edit else client.stream, options)
    return client.edit(**options) if is_edit else client.generate(**options)


def _images_with_progress(stream: Any, options: Mapping[str, Any]) -> Sequence[GeneratedImage]:
    images: Sequence[GeneratedImage] = []
    with tqdm(unit="step", file=sys.stderr) as bar:
        for preview in stream(**options, preview_every=ONLY_THE_LAST):
            bar.total = preview.num_inference_steps
            bar.update(preview.step - bar.n)
            images = preview.images
    return images


def _save_mask(images: Sequence[GeneratedImage], path: Path | None) -> None:
    """The images of one call share it."""
    if path is not None and images[0].mask is not None:
        answer(save_mask(images[0].mask, path))
