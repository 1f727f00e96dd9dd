"""What goes wrong is said in words, and what was typed stays."""

from __future__ import annotations

import pytest

from qwen_image_client import load_recipe


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"seed": "-5"}, "seed=-5 must be between 0 and 9223372036854775807"),
        ({"seed": "seven"}, "The seed “seven” is no whole number"),
        ({"negative": "red " * 2000}, "negative_prompt"),
    ],
)
def test_a_refused_value_is_named_and_the_form_stays(visitor, fields, words):
    visitor.paint("a <b>red</b> circle", steps=7, **fields)
    visitor.wait_for_status(words)
    visitor.page.locator(".toast-body", has_text=words[:20]).wait_for()
    assert visitor.read("prompt") == "a <b>red</b> circle"
    assert visitor.read("steps") == "7"
    assert {field: visitor.read(field) for field in fields} == fields


def test_an_empty_prompt_is_refused_before_it_is_sent(visitor):
    visitor.paint("  ")
    visitor.wait_for_status("The prompt is empty")


def test_no_picture_to_start_from_is_said(visitor):
    visitor.open_tab("From a picture")
    visitor.paint("a red circle")
    visitor.wait_for_status("There is no picture to start from")


def test_an_error_keeps_the_finished_picture_and_the_next_is_painted(visitor):
    visitor.paint("a red circle", seed="5", steps=2)
    visitor.wait_for_picture()
    recipe = visitor.recipe()
    visitor.paint("a blue star", seed="-5")
    visitor.wait_for_status("seed=-5")
    assert visitor.recipe() == recipe
    assert load_recipe(visitor.download()).prompt == "a red circle"
    visitor.paint("a blue star", seed="6")
    visitor.wait_for_picture()
    assert visitor.recipe()["Prompt"] == "a blue star"
