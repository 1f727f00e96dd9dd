"""The commands: read their options, call the server, save and print what comes back."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from qwen_image_client import Client, GeneratedImage, InvalidRequest, Recipe, RecipeError, load_recipe
from qwen_image_client.cli.arguments import Arguments
from qwen_image_client.cli.files import (
    InputFiles,
    complete_pattern,
    prepare_folder,
    prepare_mask_name,
    save,
    save_mask,
)
from qwen_image_client.cli.inputs import read_inputs
from qwen_image_client.integration import guidance_options, new_request_id, sha256

ONLY_THE_LAST = 2**31 - 1  # steps between decoded previews


def generate(arguments: Arguments) -> int:
    """Makes the images of either command and prints the path of each."""
    pattern = complete_pattern(arguments.output, arguments.num_images)
    prepare_folder(pattern)
    mask_name = prepare_mask_name(arguments.save_mask)
    files = InputFiles.read(arguments.images, arguments.mask)
    options = {**read_options(arguments, files), "request_id": new_request_id()}
    if not arguments.quiet:
        print_message(f"request {options['request_id']}")
    try:
        with arguments.client() as client:
            images = _request_images(client, arguments, options)
    except InvalidRequest as error:
        raise files.name_in(error) from error
    for index, image in enumerate(images, start=1):
        print_result(save(image, pattern, index))
    _save_mask(images, mask_name)
    return 0


def read_options(arguments: Arguments, files: InputFiles) -> dict[str, Any]:
    """The arguments of the client's method: the recipe's, if one is given, changed by the options that are given.

    Raises:
        RecipeError: the image carries no recipe, or that of another command.
        OSError: the image can't be opened.
    """
    given = read_inputs(arguments, arguments.command)
    images = files.as_arguments(arguments.command)
    recipe = {} if arguments.from_image is None else _read_recipe(arguments.from_image, arguments.command, files)
    if "num_inference_steps" in given or "sigmas" in given:
        # Sigmas are one a step: a new number of steps drops the recipe's sigmas, and the other way round.
        recipe.update(num_inference_steps=None, sigmas=None)
    options = {**recipe, **given}
    # A recipe says what guidance there was, also where there was none.
    default = arguments.default_guidance if arguments.from_image is None else "off"
    guidance = guidance_options(options.get("negative_prompt"), options.get("true_cfg_scale"), default)
    return {**options, **guidance, **images, "num_images": arguments.num_images}


def _request_images(client: Client, arguments: Arguments, options: Mapping[str, Any]) -> Sequence[GeneratedImage]:
    """The images, with a progress bar by step where somebody sees it and the model can."""
    is_edit = arguments.command == "edit"
    is_watched = sys.stderr.isatty() and not arguments.no_preview and not arguments.quiet
    if is_watched and client.has_previews and arguments.save_mask is None:  # a stream has no mask
        return _stream_with_progress(client.stream_edit if is_edit else client.stream, options)
    return client.edit(**options) if is_edit else client.generate(**options)


def _stream_with_progress(stream: Any, options: Mapping[str, Any]) -> Sequence[GeneratedImage]:
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
        print_result(save_mask(images[0].mask, path))


def _read_recipe(path: Path, command: str, files: InputFiles) -> dict[str, Any]:
    """The arguments of the client's method that the recipe stands for.

    Raises:
        RecipeError: the image carries no recipe, that of another command, or its images aren't given.
        OSError: the image can't be opened.
    """
    recipe = load_recipe(path)
    if recipe.task != command:
        raise RecipeError(f"{path} is of another command: use `qwen-image {recipe.task} --from-image {path}`")
    _note_other_images(recipe, files)
    try:
        if recipe.task == "edit":
            return {**recipe.as_edit_arguments(files.images)}
        return {**recipe.as_arguments(**files.as_arguments(command))}
    except RecipeError as error:
        raise RecipeError(f"{path}: {error}") from error


def _note_other_images(recipe: Recipe, files: InputFiles) -> None:
    """Another image is a change like any other, but one that isn't seen in the command."""
    used = (*recipe.image_sha256, *([recipe.mask_sha256] if recipe.mask_sha256 else []))
    sent = (*files.images, *([files.mask] if files.mask else []))
    for name, content in zip(files.names, sent, strict=True):
        if used and sha256(content) not in used:
            print_message(f"note: {name} isn't what the recipe was made from")


def cancel(arguments: Arguments) -> int:
    """Ends a request; its images, counted, go to stdout."""
    if not arguments.request_id:
        raise InvalidRequest("REQUEST_ID is empty")
    with arguments.client() as client:
        num_images = client.cancel(arguments.request_id)
    if num_images == 0:
        print_message("the server knows no such request; it will be ended if it still arrives")
    print_result(num_images)
    return 0


def check_ready(arguments: Arguments) -> int:
    """0 if the server is ready, 1 if it isn't."""
    with arguments.client() as client:
        if arguments.wait is not None:
            client.wait_until_ready(arguments.wait)
        is_ready = client.is_ready()
    print_message(f"{arguments.url} is {'' if is_ready else 'not '}ready")
    return 0 if is_ready else 1


def print_message(*sentences: str) -> None:
    """To the person at the terminal, on stderr."""
    sys.stderr.write("; ".join(sentences) + "\n")


def print_result(line: object) -> None:
    """To the next program, on stdout."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
