"""The sizes on offer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qwen_image_contract import Limits
from qwen_image_page.server_info import ServerInfo
from qwen_image_page.sizes import LIKE_INPUT_IMAGE, Size, size_choices, sizes_by_shape

QWEN_IMAGE = ServerInfo(
    edits=False,
    width=1328,
    height=1328,
    num_inference_steps=50,
    true_cfg_scale=4.0,
    max_images=8,
    max_input_images=0,
    limits=Limits(),
)


def test_at_qwen_images_own_area_they_are_those_it_was_trained_on():
    assert [str(size) for size in sizes_by_shape(QWEN_IMAGE).values()] == [
        *("1328x1328", "1664x928", "1472x1104", "1584x1056"),
        *("928x1664", "1104x1472", "1056x1584"),
    ]


@pytest.mark.parametrize("side", [64, 128, 512, 1024, 2048])
def test_every_size_is_one_that_the_server_takes_and_is_there_once(side):
    info = replace(QWEN_IMAGE, width=side, height=side)
    sizes = list(sizes_by_shape(info).values())
    assert sizes[0] == Size(side, side)
    assert len(set(sizes)) == len(sizes)
    for size in sizes:
        assert size.width % 16 == size.height % 16 == 0
        assert 64 <= min(size.width, size.height) <= max(size.width, size.height) <= 2048


def test_with_a_picture_the_first_choice_is_its_own_shape():
    (label, value), *_ = size_choices(QWEN_IMAGE, has_input_image=True)
    assert (label, value) == ("Like the picture", LIKE_INPUT_IMAGE)
    assert Size.parse(value) is None


def test_the_size_of_a_recipe_is_added_where_it_is_of_another_shape():
    assert size_choices(QWEN_IMAGE, has_input_image=False, extra=Size(64, 128))[-1] == ("64 × 128", "64x128")
    assert size_choices(QWEN_IMAGE, has_input_image=False, extra=Size(1328, 1328)) == size_choices(
        QWEN_IMAGE, has_input_image=False
    )
