"""Text states of the prompts used last."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from qwen_image.text.condition_images import ConditionPicture
from qwen_image.text.embeds_cache import StatesCache
from qwen_image.text.encoder import Prompt

DIM = 4
A, B, C, D = (Prompt(tokens) for tokens in ((1, 2, 3), (4, 5), (6, 7, 8, 9), (7,)))
DARK, LIGHT = np.zeros((4, 6, 3), np.uint8), np.full((4, 6, 3), 255, np.uint8)


class Encoder:
    """States that tell their prompt: each token's id in all dimensions. Remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[list[Prompt]] = []

    def __call__(self, prompts):
        self.asked.append(list(prompts))
        return [states(prompt) for prompt in prompts]


def states(prompt) -> np.ndarray:
    return np.repeat(np.array(prompt.token_ids, np.float32)[:, None], DIM, axis=1)


def size(*prompts) -> int:
    return sum(states(prompt).nbytes for prompt in prompts)


def test_a_prompt_is_encoded_once():
    cache, encode = StatesCache(size(A, B)), Encoder()
    first, again = cache.get_all([A], encode), cache.get_all([A], encode)
    assert encode.asked == [[A]]
    assert again[0] is first[0]
    assert (cache.hits, cache.misses) == (1, 1)


def test_states_come_in_the_prompts_order_held_or_not():
    cache, encode = StatesCache(size(A, B, C)), Encoder()
    cache.get_all([B], encode)
    found = cache.get_all([C, B, A], encode)
    assert [each.tolist() for each in found] == [states(prompt).tolist() for prompt in (C, B, A)]


def test_what_is_missing_is_encoded_in_one_call():
    cache, encode = StatesCache(size(A, B, C)), Encoder()
    cache.get_all([B], encode)
    cache.get_all([A, B, C], encode)
    assert encode.asked == [[B], [A, C]]
    assert (cache.hits, cache.misses) == (1, 3)


def test_a_prompt_that_comes_twice_in_one_call_is_encoded_once():
    cache, encode = StatesCache(size(A, B)), Encoder()
    found = cache.get_all([A, B, A, A], encode)
    assert encode.asked == [[A, B]]
    assert found[0] is found[2] is found[3]
    assert (cache.hits, cache.misses) == (2, 2)


def test_prompts_made_apart_are_one_if_tokens_and_pictures_are_equal():
    cache, encode = StatesCache(size(A)), Encoder()
    first, again = (Prompt((1, 2, 3), (ConditionPicture.of(DARK.copy()),)) for _ in range(2))
    cache.get_all([first], encode)
    cache.get_all([again], encode)
    assert encode.asked == [[first]]


def test_prompts_of_other_pictures_are_others():
    cache, encode = StatesCache(10 * size(A)), Encoder()
    turned = DARK.reshape(6, 4, 3)
    seen = [(), (DARK,), (LIGHT,), (turned,), (DARK, DARK), (DARK, LIGHT), (LIGHT, DARK)]
    prompts = [Prompt((1, 2, 3), tuple(map(ConditionPicture.of, pictures))) for pictures in seen]
    cache.get_all(prompts, encode)
    assert encode.asked == [prompts]


def test_the_pixels_of_pictures_are_not_held():
    cache = StatesCache(size(A))
    pixels = DARK.copy()
    gone = weakref.ref(pixels)
    cache.get_all([Prompt((1, 2, 3), (ConditionPicture.of(pixels),))], lambda prompts: [states(A)])
    del pixels
    gc.collect()
    assert gone() is None


def test_nothing_missing_calls_no_encoder():
    cache, encode = StatesCache(size(A)), Encoder()
    assert cache.get_all([], encode) == []
    cache.get_all([A], encode)
    cache.get_all([A, A], encode)
    assert encode.asked == [[A]]


def test_the_states_used_longest_ago_go_first_by_bytes():
    cache, encode = StatesCache(size(A, B)), Encoder()
    cache.get_all([A], encode)
    cache.get_all([B], encode)
    cache.get_all([A], encode)
    cache.get_all([D], encode)  # smaller than B, yet one has to go
    cache.get_all([A], encode)
    cache.get_all([B], encode)
    assert encode.asked == [[A], [B], [D], [B]]


def test_a_prompt_larger_than_the_cache_is_answered_and_not_kept():
    cache, encode = StatesCache(size(B)), Encoder()
    cache.get_all([B], encode)
    (found,) = cache.get_all([C], encode)
    assert found.tolist() == states(C).tolist()
    cache.get_all([C], encode)
    assert encode.asked == [[B], [C], [C]]


def test_more_prompts_than_the_cache_holds_are_all_answered():
    cache, encode = StatesCache(size(B)), Encoder()
    found = cache.get_all([A, B, C], encode)
    assert [len(each) for each in found] == [3, 2, 4]


def test_a_cache_of_no_bytes_keeps_nothing():
    cache, encode = StatesCache(0), Encoder()
    cache.get_all([A], encode)
    cache.get_all([A], encode)
    assert encode.asked == [[A], [A]]


def test_an_encoder_that_fails_leaves_nothing_behind():
    cache, encode = StatesCache(size(A, B, C)), Encoder()
    cache.get_all([A], encode)

    def broken(prompts):
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        cache.get_all([A, B, C], broken)
    found = cache.get_all([A, B, C], encode)
    assert encode.asked == [[A], [B, C]]
    assert [len(each) for each in found] == [3, 2, 4]


def test_an_encoder_that_answers_too_little_is_an_error_and_leaves_nothing_behind():
    cache, encode = StatesCache(size(A, B)), Encoder()
    with pytest.raises(ValueError, match="shorter"):
        cache.get_all([A, B], lambda prompts: [states(prompts[0])])
    cache.get_all([A, B], encode)
    assert encode.asked == [[A, B]]
