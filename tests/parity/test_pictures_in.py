"""Image to image, inpainting and editing by the server against diffusers' four pipelines, in float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import QwenImageEditPipeline, QwenImageImg2ImgPipeline, QwenImageInpaintPipeline
from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit, pipeline_qwenimage_edit_plus
from PIL import Image

from build.tiny_checkpoint import write_tiny_checkpoint
from qwen_image.checkpoint import open_checkpoint
from qwen_image.launch.tritonserver import TritonServer
from tests.parity.edit_reference import edit_reference
from tests.pictures import levels_apart, picture, png, right_half
from tests.servers import serving
from tests.serving.raw import ask

TOLERANCE = 1e-4  # on [0, 1]


def assert_same(image, expected):
    """A byte within TOLERANCE of the reference's float: half a byte's step is rounding."""
    assert image.shape == expected.shape
    assert np.abs(image - expected * 255).max() <= 0.5 + 255 * TOLERANCE


def quiet(pipeline):
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


@pytest.mark.parametrize("strength", [0.3, 0.6, 1.0])
@pytest.mark.parametrize("given", [{}, {"negative_prompt": "blurry"}], ids=["unguided", "guided"])
def test_image_to_image_equals_diffusers(server, tiny_checkpoint, strength, given):
    pipeline = quiet(QwenImageImg2ImgPipeline.from_pretrained(tiny_checkpoint))
    start, values = picture(200, 120), {"height": 96, "width": 160, "num_inference_steps": 7, "strength": strength}
    expected = pipeline("a cat", image=start, **given, **values, generator=generator(3), output_type="np").images
    wanted = ("image", "used_num_inference_steps")
    found = ask(server, "a cat", seed=3, input_image=png(start), outputs=wanted, **given, **values)
    assert_same(found["image"], expected)
    assert found["used_num_inference_steps"] == 7 - int(7 - 7 * strength)


@pytest.mark.parametrize("strength", [0.6, 1.0])
def test_inpainting_equals_diffusers_where_it_paints_and_keeps_the_rest_exactly(server, tiny_checkpoint, strength):
    pipeline = quiet(QwenImageInpaintPipeline.from_pretrained(tiny_checkpoint))
    start, mask = picture(160, 96), right_half(160, 96)
    values = {"height": 96, "width": 160, "num_inference_steps": 5, "strength": strength, "negative_prompt": ""}
    expected = pipeline(
        "a cat", image=start, mask_image=mask, **values, generator=generator(3), output_type="np"
    ).images
    files = {"input_image": png(start), "mask_image": png(mask)}
    found = ask(server, "a cat", seed=3, outputs=("image", "mask"), **files, **values)
    assert_same(found["image"][:, :, 80:], expected[:, :, 80:])
    assert np.array_equal(found["image"][0, :, :80], np.asarray(start)[:, :80])
    assert np.array_equal(found["mask"][0], np.asarray(mask))


def test_rows_that_start_from_pictures_and_from_noise_share_a_request(server):
    """Each equals its solo run."""
    start, mask = png(picture(96, 96)), png(right_half(96, 96))
    files = {"input_image": [[start], [start], [b""]], "mask_image": [b"", mask, b""]}
    values = {"height": 96, "width": 96, "num_inference_steps": 4}
    together = ask(server, ["a cat", "a dog", "a star"], seed=[1, 2, 3], **files, **values)["image"]
    alone = [
        ask(server, "a cat", seed=1, input_image=start, **values),
        ask(server, "a dog", seed=2, input_image=start, mask_image=mask, **values),
        ask(server, "a star", seed=3, **values),
    ]
    for row, each in zip(together, alone, strict=True):
        assert levels_apart(row, each["image"][0]) <= 1


@pytest.fixture(scope="module")
def tiny_edit_2509_checkpoint(tmp_path_factory) -> Path:
    """One that modulates its pictures' tokens as it does the others."""
    return write_tiny_checkpoint(tmp_path_factory.mktemp("edit_2509") / "tiny", pipeline="QwenImageEditPlusPipeline")


@pytest.fixture(scope="module")
def edit_2509_server(slow, tiny_edit_2509_checkpoint, tmp_path_factory):
    with serving(tiny_edit_2509_checkpoint, tmp_path_factory.mktemp("edit_2509_server")) as running:
        yield running


SERVERS = {
    "edit_one_server": "tiny_edit_checkpoint",
    "edit_2509_server": "tiny_edit_2509_checkpoint",
    "edit_server": "tiny_edit_plus_checkpoint",
}


@pytest.fixture(scope="module", params=SERVERS)
def editing(slow, request) -> tuple[TritonServer, Path]:
    """A server and the checkpoint that it serves."""
    return request.getfixturevalue(request.param), request.getfixturevalue(SERVERS[request.param])


@pytest.fixture
def target(editing) -> TritonServer:
    return editing[0]


@pytest.fixture
def pipeline(editing, monkeypatch):
    """diffusers', with the pictures' areas that the checkpoint names in place of its own constants."""
    checkpoint = open_checkpoint(editing[1])
    areas = {1024 * 1024: checkpoint.edit.reference_area, 384 * 384: checkpoint.edit.condition_area}
    for module in (pipeline_qwenimage_edit, pipeline_qwenimage_edit_plus):
        own = module.calculate_dimensions
        monkeypatch.setattr(module, "calculate_dimensions", lambda area, ratio, own=own: own(areas[area], ratio))
    return edit_reference(editing[1])


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def by_diffusers(pipeline, prompt: str, pictures: list[Image.Image], *, seed: int, **values):
    image = pictures[0] if isinstance(pipeline, QwenImageEditPipeline) else pictures
    return pipeline(image, prompt, generator=generator(seed), output_type="np", **values).images


def skip_unless_several(pipeline, pictures) -> None:
    if isinstance(pipeline, QwenImageEditPipeline) and len(pictures) > 1:
        pytest.skip("this pipeline takes one picture")


SIZES = {"one": [(200, 120)], "three": [(200, 120), (64, 128), (90, 90)]}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("given", [{}, {"negative_prompt": " "}], ids=["unguided", "guided"])
def test_an_edit_equals_diffusers(target, pipeline, sizes, given):
    pictures = [picture(*size, seed=seed) for seed, size in enumerate(sizes)]
    skip_unless_several(pipeline, pictures)
    values = {"num_inference_steps": 4, **given}
    expected = by_diffusers(pipeline, "make it blue", pictures, seed=5, **values)
    wanted = ("image", "used_height", "used_width")
    files = [[png(each) for each in pictures]]
    found = ask(target, "make it blue", model="qwen_image_edit", seed=5, input_image=files, outputs=wanted, **values)
    assert_same(found["image"], expected)
    assert (found["used_height"], found["used_width"]) == expected.shape[1:3]


def test_a_size_that_is_given_is_kept(target, pipeline):
    values = {"height": 64, "width": 112, "num_inference_steps": 3}
    expected = by_diffusers(pipeline, "make it blue", [picture(100, 80)], seed=5, **values)
    files = [[png(picture(100, 80))]]
    found = ask(target, "make it blue", model="qwen_image_edit", seed=5, input_image=files, **values)
    assert_same(found["image"], expected)


def test_rows_with_different_numbers_of_pictures_equal_diffusers_one_by_one(target, pipeline):
    rows = [[picture(120, 120, 1)], [picture(128, 96, 2), picture(80, 80, 3)]]
    skip_unless_several(pipeline, rows[1])
    prompts, values = ["make it blue", "remove the star"], {"height": 96, "width": 96, "num_inference_steps": 3}
    files = [[png(rows[0][0]), b""], [png(each) for each in rows[1]]]
    given = {"negative_prompt": "", "seed": [1, 2], "input_image": files}
    found = ask(target, prompts, model="qwen_image_edit", **given, **values)["image"]
    for row, (prompt, pictures) in enumerate(zip(prompts, rows, strict=True)):
        expected = by_diffusers(pipeline, prompt, pictures, seed=row + 1, negative_prompt="", **values)
        assert_same(found[row : row + 1], expected)


def test_other_pictures_and_another_order_give_other_results(target, pipeline):
    """What makes the comparisons above mean something."""
    first, second = png(picture(96, 96, 1)), png(picture(96, 96, 2))
    several = not isinstance(pipeline, QwenImageEditPipeline)
    cases = [[first], [second], *([[first, second], [second, first]] if several else [])]
    values = {"model": "qwen_image_edit", "num_inference_steps": 3, "height": 96, "width": 96, "seed": 1}
    found = [
        ask(target, "make it blue", outputs=("latents",), input_image=[case], **values)["latents"] for case in cases
    ]
    for position, each in enumerate(found):
        assert all(np.abs(each - other).max() > 1e-3 for other in found[position + 1 :])
