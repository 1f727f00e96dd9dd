"""Every input of the contract's table is in every part of the client: what is forgotten somewhere is noticed here."""

from collections.abc import Sequence
from dataclasses import fields
from typing import get_args, get_type_hints

import numpy as np
import pytest

from qwen_image_client import (
    Client,
    EditArguments,
    EditOptions,
    GenerationOptions,
    GenerationRequest,
    Output,
    Picture,
    Recipe,
    RecipeArguments,
    RowOptions,
)
from qwen_image_client._call import Models
from qwen_image_client._job import Job
from qwen_image_client._request import expand_edits, expand_requests
from qwen_image_client._tensors import USED, make_input_tensors
from qwen_image_client.cli.arguments import parse
from qwen_image_client.cli.commands import read_options
from qwen_image_client.cli.files import InputFiles
from qwen_image_contract import ENSEMBLES, INPUTS, OUTPUTS, ROW_INPUTS, TASKS, inputs_of

UNARY = {each.task: each for each in ENSEMBLES if not each.is_stream}
PYTHON_TYPES = {"BYTES": str, "INT32": int, "INT64": int, "FP32": float}
SAMPLES = {"INT32": 3, "INT64": 4, "FP32": 0.25}
FROM_IMAGES = {"input_image": "image_sha256", "mask_image": "mask_sha256"}
EXPAND = {"generate": expand_requests, "edit": expand_edits}


def values(task):
    """The inputs of the task that aren't images."""
    return [each for each in inputs_of(UNARY[task]) if not each.is_image]


def type_of(each):
    one = Picture if each.is_image else PYTHON_TYPES[each.datatype]
    if each.elements == 1:
        return one
    return one | Sequence[one] if each.is_image else Sequence[one]


def sample(each):
    """A value that is no default and that FP32 has exactly."""
    if each.is_image:
        return each.name.encode()
    if each.datatype == "BYTES":
        return f"some {each.name}"
    return SAMPLES[each.datatype] if each.elements == 1 else (1.0, 0.5)


def test_a_request_has_every_input_of_a_row():
    expected = {each.name: type_of(each) | None for each in ROW_INPUTS} | {"prompt": str}
    assert get_type_hints(GenerationRequest) == expected


@pytest.mark.parametrize(("task", "kind"), [("generate", GenerationOptions), ("edit", EditOptions)])
def test_a_method_takes_every_input_of_its_task(task, kind):
    expected = {each.name: type_of(each) | None for each in values(task)}
    expected |= {"seed": int | Sequence[int] | None, "num_images": int}
    if task == "generate":
        expected |= {"image": Picture | None, "mask_image": Picture | None}
    assert {"prompt": str, **get_type_hints(kind)} == {**expected, "prompt": str}


def test_a_stream_takes_every_input_of_its_own():
    for stream in (Client.stream, Client.stream_edit):
        kinds = get_type_hints(stream)
        for each in INPUTS:
            if each.only_streams:
                assert kinds[each.name] == type_of(each) | None


def test_row_options_are_those_that_every_task_has():
    common = {each.name for each in ROW_INPUTS if each.tasks == TASKS and not each.is_image}
    assert RowOptions.__annotations__.keys() == common - {"prompt", "seed"}


@pytest.mark.parametrize(
    ("task", "kind", "images"),
    [("generate", RecipeArguments, {"image", "mask_image"}), ("edit", EditArguments, {"images"})],
)
def test_a_recipe_stands_for_every_input_of_its_task(task, kind, images):
    assert get_type_hints(kind).keys() == {each.name for each in values(task)} | images


def test_a_recipe_has_every_input_or_what_the_server_made_of_it():
    own = {"requested_num_inference_steps", "task", "model", "request_id"}
    expected = {FROM_IMAGES[each.name] if each.is_image else each.name for each in ROW_INPUTS} | own
    assert {each.name for each in fields(Recipe)} == expected


def test_people_can_read_every_number_that_was_sent(recipe):
    for each in ROW_INPUTS:
        if each.datatype != "BYTES" and each.name not in USED:
            text = Recipe(**{**_known(recipe), each.name: sample(each)}).as_text()
            assert f"{each.recipe_text}: {str(sample(each)).strip('()').replace(',', '')}" in text


def _known(recipe):
    return {each.name: getattr(recipe, each.name) for each in fields(recipe)}


@pytest.mark.parametrize("task", TASKS)
def test_every_option_of_the_command_line_reaches_the_tensors(task, tmp_path):
    argv = [task, "some prompt"]
    for each in inputs_of(UNARY[task]):
        if each.is_image:
            (tmp_path / each.name).write_bytes(sample(each))
            argv += [{"input_image": "--image", "mask_image": "--mask"}[each.name], str(tmp_path / each.name)]
        elif each.name != "prompt":
            text = ",".join(map(str, sample(each))) if each.elements != 1 else str(sample(each))
            argv += [f"--{each.name.replace('_', '-')}", text]
    arguments = parse(argv)
    options = read_options(arguments, InputFiles.read(arguments.images, arguments.mask))
    assert tensors(EXPAND[task](**options)) == tensors_of_samples(task)


def tensors(rows):
    return {name: (array.dtype, array.tolist()) for name, array in make_input_tensors(rows).items()}


def tensors_of_samples(task, left_out=None):
    inputs = [each for each in inputs_of(UNARY[task]) if each.name != left_out]
    made = tensors([GenerationRequest(**{each.name: sample(each) for each in inputs})])
    assert made.keys() == {each.name for each in inputs}
    return made


@pytest.mark.parametrize("left_out", ["sigmas", "num_inference_steps"])
@pytest.mark.parametrize("task", TASKS)
def test_a_recipe_with_every_input_makes_the_same_tensors_again(task, left_out):
    row = GenerationRequest(**{each.name: sample(each) for each in inputs_of(UNARY[task]) if each.name != left_out})
    job = Job.unary(Models(), [row], (), None, task)
    (image,) = job.read_images({f"used_{name}": np.array([[_used(task, row, name)]]) for name in USED})
    recipe = Recipe.from_json(image.recipe.as_json())
    if task == "edit":
        again = expand_edits(**recipe.as_edit_arguments(row.input_image))
    else:
        again = expand_requests(**recipe.as_arguments(image=row.input_image[0], mask_image=row.mask_image))
    assert tensors(again) == tensors([row]) == tensors_of_samples(task, left_out)


def _used(task, row, name):
    """What a server answers: an image that starts from another makes fewer steps than were asked for."""
    if name == "num_inference_steps" and (task == "generate" or row.sigmas is not None):
        return 2
    return getattr(row, name)


def test_outputs_to_request_are_the_contracts():
    told = {"step", *(f"used_{name}" for name in USED)}
    assert {each.name for each in OUTPUTS} == {*get_args(Output), *told}


def test_models_are_the_contracts():
    models = Models()
    for each in ENSEMBLES:
        assert each.name == (models.stream if each.is_stream else models.unary)(each.task)
