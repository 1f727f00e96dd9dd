"""The table of shapes that engines hold: whole, without gaps, and clear about what does not fit."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from qwen_image.engines.profiles import (
    BLOCK_PROFILES,
    VAE_SIDE,
    Span,
    check_covered,
    chosen,
    from_json,
    max_rows,
    named,
    to_json,
    with_text,
)
from qwen_image.errors import EngineError, InvalidRequest
from qwen_image.families import FAMILIES, QWEN_IMAGE, Family
from qwen_image.images import fitted_size
from qwen_image.request.params import image_tokens
from qwen_image_contract import Limits

PRESETS = [(1328, 1328), (1664, 928), (1472, 1104), (1584, 1056), (1024, 1024), (512, 512), (64, 64), (2048, 2048)]


def text_tokens(family: Family) -> int:
    """The most of a row, by a checkpoint that changes nothing of its family's."""
    return family.max_sequence_length + (family.edit.max_picture_tokens if family.edit else 0)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.pipeline_class)
def test_the_table_holds_all_that_the_default_limits_allow(family):
    limits = Limits()
    profiles = with_text(BLOCK_PROFILES, text_tokens(family))
    check_covered(profiles, image_tokens=image_tokens(limits, family), max_text_tokens=text_tokens(family))
    assert VAE_SIDE.holds(limits.min_side)
    assert VAE_SIDE.holds(limits.max_side)


def test_an_edits_text_has_room_for_its_pictures_and_only_an_edits():
    assert text_tokens(QWEN_IMAGE) == QWEN_IMAGE.max_sequence_length == BLOCK_PROFILES[0].text_tokens.most
    for family in (each for each in FAMILIES.values() if each.edit):
        square = -(-family.edit.condition_area // 28**2)
        assert text_tokens(family) >= family.max_sequence_length + family.edit.max_images * square
        with pytest.raises(EngineError, match=rf"with {text_tokens(family)} text tokens, which the limits allow"):
            check_covered(BLOCK_PROFILES, image_tokens=(16, 4096), max_text_tokens=text_tokens(family))


@pytest.mark.parametrize(("width", "height"), [(4096, 4096), (4096, 256), (256, 4096), (4096, 257), (1000, 63)])
def test_pictures_of_every_allowed_shape_are_within_the_text(width, height):
    for family in (each for each in FAMILIES.values() if each.edit):
        fitted = fitted_size(family.edit.condition_area, width, height, family.edit.side_multiple)
        tokens = round(fitted[0] / 28) * round(fitted[1] / 28)
        assert family.edit.max_images * (tokens + 2) <= family.edit.max_picture_tokens


def test_profiles_grow_in_size_and_shrink_in_rows_and_each_holds_both_guidance_branches():
    for smaller, larger in pairwise(BLOCK_PROFILES):
        assert smaller.image_tokens.most < larger.image_tokens.most
        assert smaller.rows.most > larger.rows.most
    assert all(profile.rows.most >= 2 for profile in BLOCK_PROFILES)
    assert len({profile.name for profile in BLOCK_PROFILES}) == len(BLOCK_PROFILES)


@pytest.mark.parametrize(
    ("size", "name"),
    [*zip(PRESETS, ["1328", "1328", "1328", "1328", "1024", "512", "512", "2048"], strict=True), ((512, 528), "1024")],
)
def test_a_call_takes_the_smallest_profile_that_holds_it(size, name):
    tokens = size[0] * size[1] // 256
    assert BLOCK_PROFILES[chosen(BLOCK_PROFILES, 2, tokens, 40)].name == name


def test_a_call_of_many_rows_goes_where_they_fit():
    profiles = (replace(BLOCK_PROFILES[0], rows=Span(1, 1, 2)), BLOCK_PROFILES[1])
    assert [chosen(profiles, rows, 256, 40) for rows in (2, 3)] == [0, 1]
    assert max_rows(profiles, 256) == BLOCK_PROFILES[1].rows.most


@pytest.mark.parametrize(
    ("rows", "image_tokens", "text_tokens"), [(33, 1024, 40), (2, 15, 40), (2, 1025, 40), (2, 1024, 1025)]
)
def test_what_fits_nowhere_is_refused_with_what_would(rows, image_tokens, text_tokens):
    message = (
        rf"^{rows} rows of {image_tokens} image tokens and {text_tokens} text tokens fit no engine profile; there are "
        r"512 \(1 to 32 rows, 16 to 1024 image tokens, 1 to 1024 text\)$"
    )
    with pytest.raises(InvalidRequest, match=message):
        chosen(named(["512"]), rows, image_tokens, text_tokens)


def test_no_rows_are_allowed_of_what_no_profile_holds():
    assert max_rows(named(["512", "1024"]), 4097) == 0
    assert max_rows(named(["512", "1024"]), 4096) == 8


@pytest.mark.parametrize(
    ("profiles", "limits", "text", "missing"),
    [
        (named(["512"]), Limits(max_pixels=512 * 528), 1024, "2 rows of 1025 image tokens"),
        (named(["512"]), Limits(max_pixels=512 * 512, min_side=48), 1024, "2 rows of 9 image tokens"),
        (named(["512"]), Limits(max_pixels=512 * 512), 1025, "1025 text tokens"),
        (
            (BLOCK_PROFILES[0], replace(BLOCK_PROFILES[1], image_tokens=Span(2000, 4096, 4096))),
            Limits(max_pixels=1024 * 1024),
            1024,
            "2 rows of 1025 image tokens",
        ),
        (
            (replace(BLOCK_PROFILES[0], rows=Span(1, 1, 1)),),
            Limits(max_pixels=512 * 512),
            1024,
            "2 rows of 16 image tokens",
        ),
    ],
    ids=["too large", "too small", "too much text", "a gap", "no room for guidance"],
)
def test_limits_that_reach_beyond_the_profiles_are_an_error(profiles, limits, text, missing):
    with pytest.raises(EngineError, match=rf"({missing}).* which the limits allow; .*build more profiles$"):
        check_covered(profiles, image_tokens=image_tokens(limits, QWEN_IMAGE), max_text_tokens=text)


def test_limits_within_the_profiles_are_none():
    limits = Limits(max_pixels=1024 * 1024)
    check_covered(named(["512", "1024"]), image_tokens=image_tokens(limits, QWEN_IMAGE), max_text_tokens=1024)


def test_shapes_follow_the_spans():
    (profile,) = named(["1024"])
    shapes = profile.shapes(dim=3072, head_dim=128)
    assert shapes["image"] == ((1, 16, 3072), (2, 4096, 3072), (8, 4096, 3072))
    assert shapes["text_mask"] == ((1, 1), (2, 128), (8, 1024))
    assert shapes["text_rotary"][2] == (2, 1024, 64)


def test_a_profile_survives_its_file():
    assert [from_json(to_json(each)) for each in BLOCK_PROFILES] == list(BLOCK_PROFILES)
    with pytest.raises(EngineError, match="is no engine profile"):
        from_json({"name": "512", "rows": [1, 2]})


def test_an_unknown_profile_is_an_error_with_the_known_ones():
    with pytest.raises(EngineError, match=r"^no profile 4096; the table has 512, 1024, 1328, 2048$"):
        named(["512", "4096"])
    with pytest.raises(EngineError, match=r"^no profile at all"):
        named([])
