"""Text states held beside the transformer."""

from __future__ import annotations

import pytest
import torch

from qwen_image.dit.conditioning import Conditioning, ConditioningStore
from qwen_image.errors import NotHeld


def prompt(tokens: int = 2, negative_tokens: int = 0, dtype: torch.dtype = torch.float32) -> Conditioning:
    return Conditioning(torch.ones(tokens, 8, dtype=dtype), torch.ones(negative_tokens, 8, dtype=dtype))


BYTES = prompt().num_bytes


def held(store: ConditioningStore, names: str) -> str:
    """Which of the ids are in the store. Asked newest first, so that asking leaves their order as it was."""
    found = ""
    for name in names:
        try:
            store.get(name)
        except NotHeld:
            continue
        found += name
    return found


@pytest.mark.parametrize(
    ("given", "num_bytes"),
    [
        (prompt(2), 64),
        (prompt(2, 3), 160),
        (prompt(2, 3, torch.bfloat16), 80),
        (prompt(0, 0), 0),
    ],
)
def test_a_prompts_bytes_are_both_branches_states(given, num_bytes):
    assert given.num_bytes == num_bytes


def test_what_was_put_is_what_is_got():
    store, first, second = ConditioningStore(10 * BYTES), prompt(), prompt(3)
    store.put("a", first)
    store.put("b", second)
    assert store.get("a") is first
    assert store.get("b") is second


def test_what_was_never_put_is_not_held_and_the_error_says_what_to_do():
    with pytest.raises(NotHeld, match=r"image_id='a-7' are not held here: send them with the call"):
        ConditioningStore(BYTES).get("a-7")


def test_the_prompt_used_longest_ago_goes_first():
    store = ConditioningStore(3 * BYTES)
    for name in "abc":
        store.put(name, prompt())
    store.get("a")
    store.put("d", prompt())
    assert held(store, "abcd") == "acd"


def test_putting_a_prompt_again_makes_it_the_newest_and_counts_it_once():
    store = ConditioningStore(3 * BYTES)
    for name in "abca":
        store.put(name, prompt())
    assert held(store, "bca") == "bca"
    store.put("a", prompt(4))  # as large as two
    assert held(store, "bca") == "ca"


def test_a_large_prompt_makes_as_much_room_as_it_needs():
    store = ConditioningStore(4 * BYTES)
    for name in "abcd":
        store.put(name, prompt())
    store.put("e", prompt(6))  # as large as three
    assert held(store, "abcde") == "de"


def test_the_newest_stays_even_if_it_alone_is_too_large():
    store = ConditioningStore(BYTES)
    store.put("a", prompt())
    store.put("b", prompt(200))
    assert held(store, "ab") == "b"
    store.put("c", prompt())
    assert held(store, "bc") == "c"


def test_room_is_counted_right_over_many_puts():
    store = ConditioningStore(5 * BYTES)
    for index in range(1000):
        store.put(str(index % 37), prompt(2 * (1 + index % 3)))
    for name in "abcde":
        store.put(name, prompt())
    assert held(store, "abcde") == "abcde"
