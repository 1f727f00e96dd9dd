"""The sizes on offer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qwen_image_contract import Limits
from qwen_image_page.facts import Facts
from qwen_image_page.sizes import LIKE_THE_PICTURE, Size, choices, sizes_of

QWEN_IMAGE = Facts(
    edits=False,
    width=1328,
    height=1328,
    num_inference_steps=50,
    true_cfg_scale=4.0,
    max_images=8,
    max_pictures=0,
    limits=Limits(),
)


def test_at_qwen_images_own_area_they_are_those_it_was_trained_on():
    assert [str(size) for size in sizes_of(QWEN_IMAGE).values()] == [
        *("1328x1328", "1664x928", "1472x1104", "1584x1056"),
        *("928x1664", "1104x1472", "1056x1584"),
    ]


@pytest.mark.parametrize("side", [64, 128, 512, 1024, 2048])
def test_every_size_is_one_that_the_server_takes_and_is_there_once(side):
    facts = replace(QWEN_IMAGE, width=side, height=side)
    sizes = list(sizes_of(facts).values())
    assert sizes[0] == Size(side, side)
    assert len(set(sizes)) == len(sizes)
    for size in sizes:
        assert size.width % 16 == size.height % 16 == 0
        assert 64 <= min(size.width, size.height) <= max(size.width, size.height) <= 2048


def test_with_a_picture_the_first_choice_is_its_own_shape():
    (words, text), *_ = choices(QWEN_IMAGE, with_picture=True)
    assert (words, text) == ("Like the picture", LIKE_THE_PICTURE)
    assert Size.read(text) is None


def test_the_size_of_a_recipe_is_added_where_it_is_of_another_shape():
    assert choices(QWEN_IMAGE, with_picture=False, more=Size(64, 128))[-1] == ("64 × 128", "64x128")
    assert choices(QWEN_IMAGE, with_picture=False, more=Size(1328, 1328)) == choices(QWEN_IMAGE, with_picture=False)
