"""Pictures as the text encoder reads them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qwen_image.checkpoint import Checkpoint, open_checkpoint
from qwen_image.errors import InvalidRequest
from qwen_image.families import QWEN_IMAGE_EDIT, QWEN_IMAGE_EDIT_PLUS
from qwen_image.images import PictureLimits, fitted_size
from qwen_image.text.condition_images import ConditionPicture, ConditionTokens

RATIOS = np.geomspace(1 / 16, 16, 401)  # width to height, of all pictures that a request may bring


def loaded(checkpoint: Checkpoint) -> ConditionTokens:
    found = ConditionTokens.load(checkpoint)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def tokens(tiny_edit_plus_checkpoint) -> ConditionTokens:
    return loaded(open_checkpoint(tiny_edit_plus_checkpoint))


def picture(width: int, height: int) -> ConditionPicture:
    return ConditionPicture.of(np.zeros((height, width, 3), np.uint8))


def test_a_family_that_edits_nothing_has_none(checkpoint):
    assert ConditionTokens.load(checkpoint) is None


@pytest.mark.parametrize("area", [4096, 112 * 112, 384 * 384, 1024 * 1024])
def test_no_picture_that_is_fitted_has_more_tokens_than_there_is_room_for(tokens, area):
    tokens = replace(tokens, edit=replace(tokens.edit, condition_area=area))
    most = 0
    for ratio in RATIOS:
        width, height = fitted_size(area, round(ratio * 10_000), 10_000, tokens.edit.side_multiple)
        tokens.check("picture", picture(width, height))
        most = max(most, tokens.processor.get_number_of_image_patches(height, width) // 4)
    assert most <= tokens.most < 2 * most


def test_the_room_is_made_for_the_longest_pictures_that_a_request_may_bring():
    assert PictureLimits().max_aspect_ratio == RATIOS[-1]


@pytest.mark.parametrize(("family", "usual", "most"), [(QWEN_IMAGE_EDIT, 1369, 1505), (QWEN_IMAGE_EDIT_PLUS, 196, 251)])
def test_the_published_checkpoints_pictures_have_this_many_tokens(tokens, family, usual, most):
    tokens = replace(tokens, edit=family.edit)
    height, width, _ = tokens.blank().pixels.shape
    assert tokens.processor.get_number_of_image_patches(height, width) // 4 == usual
    assert tokens.most == most


def test_the_preprocessors_own_least_pixels_are_kept(tokens):
    assert tokens.pixel_range == {"min_pixels": 56 * 56, "max_pixels": tokens.most * 28 * 28}


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((168, 196, 3), "picture 1 of prompt is 196x168; at most 35 tokens of 28x28 are allowed"),
        ((2, 402, 3), "picture 1 of prompt is 402x2; .* sides in a ratio of 200: fit it to 12544 pixels"),
    ],
)
def test_what_the_encoder_has_no_room_for_is_refused(tokens, shape, message):
    with pytest.raises(InvalidRequest, match=message):
        tokens.check("picture 1 of prompt", ConditionPicture.of(np.zeros(shape, np.uint8)))


@pytest.mark.parametrize("size", [(196, 140), (1, 1), (400, 2)])
def test_what_the_encoder_has_room_for_the_preprocessor_takes(tokens, size):
    tokens.check("picture", picture(*size))
    width, height = size
    assert tokens.processor.get_number_of_image_patches(height, width) // 4 <= tokens.most


def test_a_digest_is_of_the_content_whatever_its_layout():
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
    turned = pixels.transpose(1, 0, 2)
    digests = [ConditionPicture.of(each).digest for each in (pixels, turned, turned.copy(), pixels.reshape(6, 4, 3))]
    assert digests[1] == digests[2]
    assert len(set(digests)) == 3
