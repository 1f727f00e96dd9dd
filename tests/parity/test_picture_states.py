"""The text encoder's states of prompts with pictures against diffusers' edit pipelines, in float32."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from diffusers import DiffusionPipeline
from PIL import Image
from tritonclient.utils import InferenceServerException

from qwen_image.images import fitted_size
from tests.parity.edit_reference import edit_reference
from tests.parity.text_states import encode
from tests.serving.raw import metrics

PROMPT = "make the red circle a blue square"
NEGATIVE = "blurry, low quality 模糊"
TOLERANCE = 1e-4
CONDITION_AREA = 112 * 112
RATIOS = (1.0, 4 / 3, 0.4, 16.0)  # width to height


@pytest.fixture(scope="module")
def edit_pipeline(tiny_edit_checkpoint):
    return edit_reference(tiny_edit_checkpoint)


@pytest.fixture(scope="module")
def edit_plus_pipeline(tiny_edit_plus_checkpoint):
    return edit_reference(tiny_edit_plus_checkpoint)


def picture(seed: int, ratio: float) -> np.ndarray:
    """Blots of colour, of the size at which the text encoder sees a picture of this ratio: (H, W, 3)."""
    blots = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), np.uint8)
    return np.array(Image.fromarray(blots).resize(fitted_size(CONDITION_AREA, round(1000 * ratio), 1000, 32)))


ONE, TWO, THREE, FOUR = (picture(seed, ratio) for seed, ratio in enumerate(RATIOS))


def states_of(server, prompt, pictures) -> np.ndarray:
    return encode(server, [prompt], [pictures])["prompt_embeds"][0]


def expected_states(pipeline: DiffusionPipeline, prompt: str, pictures) -> np.ndarray:
    images = [Image.fromarray(each) for each in pictures] or None
    with torch.no_grad():
        return pipeline._get_qwen_prompt_embeds(prompt, images)[0][0].numpy()


def assert_row_is(found: dict[str, np.ndarray], name: str, row: int, expected: np.ndarray) -> None:
    states, mask = found[f"{name}_embeds"][row], found[f"{name}_embeds_mask"][row]
    assert mask.tolist() == [True] * len(expected) + [False] * (len(mask) - len(expected))
    assert np.abs(states[: len(expected)] - expected).max() < TOLERANCE
    assert not states[len(expected) :].any()


@pytest.mark.parametrize("seen", [ONE, TWO, THREE, FOUR], ids=map(str, RATIOS))
def test_a_prompt_with_a_picture_has_the_edit_pipelines_states(edit_one_server, edit_pipeline, seen):
    found = encode(edit_one_server, [PROMPT], [[seen]], [NEGATIVE])
    assert_row_is(found, "prompt", 0, expected_states(edit_pipeline, PROMPT, [seen]))
    assert_row_is(found, "negative_prompt", 0, expected_states(edit_pipeline, NEGATIVE, [seen]))


@pytest.mark.parametrize("seen", [[], [ONE], [TWO, ONE], [THREE, FOUR, TWO]], ids=len)
def test_a_prompt_with_pictures_has_the_edit_plus_pipelines_states(edit_server, edit_plus_pipeline, seen):
    found = encode(edit_server, [PROMPT], [seen], [""])
    assert_row_is(found, "prompt", 0, expected_states(edit_plus_pipeline, PROMPT, seen))
    assert_row_is(found, "negative_prompt", 0, expected_states(edit_plus_pipeline, "", seen))


def test_without_a_negative_prompt_its_states_are_one_masked_token(edit_one_server):
    found = encode(edit_one_server, [PROMPT], [[ONE]])
    assert found["negative_prompt_embeds"].shape == (1, 1, 64)
    assert not found["negative_prompt_embeds_mask"].any()


def test_rows_with_different_numbers_of_pictures_have_their_solo_states(edit_server, edit_plus_pipeline):
    prompts, rows = [PROMPT, "a star", "七颗星星 🌟"], [[ONE], [TWO, FOUR, THREE], []]
    found = encode(edit_server, prompts, rows, [NEGATIVE, "", " "])
    for row, (prompt, negative, seen) in enumerate(zip(prompts, [NEGATIVE, "", " "], rows, strict=True)):
        assert_row_is(found, "prompt", row, expected_states(edit_plus_pipeline, prompt, seen))
        assert_row_is(found, "negative_prompt", row, expected_states(edit_plus_pipeline, negative, seen))


def test_an_empty_element_between_pictures_is_passed_over(edit_server):
    assert np.array_equal(
        encode(edit_server, [PROMPT], [[b"", ONE, b"", TWO]])["prompt_embeds"],
        encode(edit_server, [PROMPT], [[ONE, TWO]])["prompt_embeds"],
    )


def test_requests_with_different_numbers_of_pictures_that_come_together_have_their_solo_states(
    edit_server, edit_plus_pipeline, at_once
):
    jobs = [(f"{number} stars", seen) for number in range(4) for seen in (None, [ONE], [TWO, THREE], [FOUR, FOUR, ONE])]
    answers = at_once(lambda job: encode(edit_server, [job[0]], job[1] and [job[1]]), jobs)
    for found, (prompt, seen) in zip(answers, jobs, strict=True):
        assert_row_is(found, "prompt", 0, expected_states(edit_plus_pipeline, prompt, seen or []))


def test_a_repeated_prompt_is_answered_from_the_cache_with_the_same_states(edit_server):
    first = states_of(edit_server, "once more", [ONE, THREE])
    before = hits(edit_server)
    assert np.array_equal(states_of(edit_server, "once more", [ONE, THREE]), first)
    assert hits(edit_server) == before + 1


def test_states_are_those_of_the_pictures_that_came(edit_server, edit_plus_pipeline):
    """Neither our cache nor vLLM's takes one picture for another."""
    turned, touched = np.ascontiguousarray(TWO.transpose(1, 0, 2)), ONE.copy()
    touched[0, 0, 0] ^= 255
    for seen in ([ONE, TWO], [TWO, ONE], [ONE, turned], [touched, TWO], [ONE], [ONE, ONE]):
        expected = expected_states(edit_plus_pipeline, "which", seen)
        assert np.abs(states_of(edit_server, "which", seen) - expected).max() < TOLERANCE


def test_the_order_of_pictures_matters(edit_server):
    square = picture(9, 1.0)
    one_way, other_way = states_of(edit_server, PROMPT, [ONE, square]), states_of(edit_server, PROMPT, [square, ONE])
    assert one_way.shape == other_way.shape
    assert np.abs(one_way[-8:] - other_way[-8:]).max() > 100 * TOLERANCE  # also where both see the same text


def test_pictures_have_rows_and_columns_as_positions(edit_server, tiny_edit_plus_checkpoint):
    untold = DiffusionPipeline.from_pretrained(tiny_edit_plus_checkpoint)
    in_a_row = expected_states(untold, PROMPT, [ONE, TWO])
    assert np.abs(states_of(edit_server, PROMPT, [ONE, TWO]) - in_a_row).max() > 10 * TOLERANCE


def test_the_longest_prompt_with_the_largest_pictures_is_taken(edit_server, edit_plus_pipeline):
    largest = max((ONE, TWO, THREE, FOUR), key=np.size)
    prompt = "!" * (1024 - 5)  # the template's end has 5
    expected = expected_states(edit_plus_pipeline, prompt, [largest] * 3)
    assert np.abs(states_of(edit_server, prompt, [largest] * 3) - expected).max() < TOLERANCE
    with pytest.raises(InferenceServerException, match="prompt has 1025 tokens"):
        encode(edit_server, [f"{prompt}!"], [[largest] * 3])


@pytest.mark.parametrize(
    ("prompt", "seen", "message"),
    [
        (PROMPT, [ONE, ONE], r"prompt comes with 2 pictures; at most 1 are allowed \(QwenImageEditPipeline\)"),
        (PROMPT, [b"not a picture"], "a packed picture"),
        (PROMPT, [np.zeros((512, 512, 3), np.uint8)], "picture 0 of prompt is 512x512; at most 42 tokens of 28x28"),
        (PROMPT, [np.zeros((2, 402, 3), np.uint8)], "picture 0 of prompt is 402x2; .* sides in a ratio of 200"),
        ("an <|image_pad|> more", [ONE], r"prompt contains <\|image_pad\|>, which stand for pictures"),
    ],
    ids=["too many", "damaged", "too large", "too long", "forged"],
)
def test_a_bad_row_is_refused_and_harms_no_other(edit_one_server, edit_pipeline, at_once, prompt, seen, message):
    def ask(job):
        try:
            return encode(edit_one_server, [job[0]], [job[1]])
        except InferenceServerException as error:
            return error

    good = [(f"{number} cats", [TWO]) for number in range(4)]
    *answers, refused = at_once(ask, [*good, (prompt, seen)])
    assert isinstance(refused, InferenceServerException)
    assert refused.status() == "StatusCode.INVALID_ARGUMENT"
    with pytest.raises(InferenceServerException, match=message):
        raise refused
    for found, (name, pictures) in zip(answers, good, strict=True):
        assert_row_is(found, "prompt", 0, expected_states(edit_pipeline, name, pictures))


def hits(server) -> float:
    return sum(value for name, value in metrics(server).items() if name.startswith("qwen_image_text_cache_hits_total"))
