"""A PNG carries its recipe, and the recipe makes the same request again."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from qwen_image_client import GeneratedImage, InvalidRequest, Recipe, RecipeError, load_recipe
from qwen_image_client.png import RECIPE_KEY, TEXT_KEY
from qwen_image_client.request import expand_requests
from qwen_image_client.tensors import input_tensors


def painted(recipe):
    pixels = np.random.default_rng(0).integers(0, 256, (recipe.height, recipe.width, 3), dtype=np.uint8)
    return GeneratedImage(Image.fromarray(pixels), None, recipe)


def test_a_recipe_survives_the_file(tmp_path, recipe):
    image = painted(recipe)
    path = image.save(tmp_path / "circle.png")
    assert load_recipe(path) == recipe
    with Image.open(path) as saved:
        assert np.array_equal(np.asarray(saved), np.asarray(image.image))


def test_a_recipe_makes_the_same_tensors_again(tmp_path, recipe):
    rows = expand_requests(**load_recipe(painted(recipe).save(tmp_path / "circle.png")).as_arguments())
    tensors = input_tensors(rows)
    assert tensors["sigmas"].tolist() == [np.float32(recipe.sigmas).tolist()]
    assert tensors["true_cfg_scale"] == np.float32(4.1)
    assert tensors["negative_prompt"].tolist() == [[b""]]
    assert "num_inference_steps" not in tensors


def test_a_recipe_without_sigmas_says_its_steps(recipe):
    assert replace(recipe, sigmas=None).as_arguments()["num_inference_steps"] == 3


def test_a_recipe_without_negative_prompt_leaves_the_scale_open(recipe):
    assert replace(recipe, negative_prompt=None, true_cfg_scale=1.0).as_arguments()["true_cfg_scale"] is None


def test_people_can_read_the_recipe_too(tmp_path, recipe):
    path = painted(replace(recipe, negative_prompt="blurry", sigmas=None)).save(tmp_path / "circle.png")
    with Image.open(path) as saved:
        assert saved.text[TEXT_KEY] == (
            "a red circle — 红色的圆\nNegative prompt: blurry\n"
            f"Steps: 3, Seed: {-(2**63)}, Size: 32x16, CFG scale: 4.1, Model: qwen_image"
        )


def test_saving_overwrites_only_when_told(tmp_path, recipe):
    image = painted(recipe)
    image.save(tmp_path / "circle.png")
    with pytest.raises(FileExistsError):
        image.save(tmp_path / "circle.png")
    image.save(tmp_path / "circle.png", overwrite=True)


def test_a_format_that_loses_the_recipe_is_refused(tmp_path, recipe):
    with pytest.raises(InvalidRequest, match=r"\.png"):
        painted(recipe).save(tmp_path / "circle.jpg")


def test_latents_alone_are_no_image(tmp_path, recipe):
    with pytest.raises(InvalidRequest, match="no image"):
        GeneratedImage(None, None, recipe).save(tmp_path / "circle.png")


@pytest.mark.parametrize("name", ["plain.png", "plain.jpg"])
def test_an_image_without_recipe_says_so(tmp_path, name):
    Image.new("RGB", (4, 4)).save(tmp_path / name)
    with pytest.raises(RecipeError, match="carries no recipe"):
        load_recipe(tmp_path / name)


def test_a_file_that_is_no_image_says_so(tmp_path):
    (tmp_path / "note.png").write_text("not an image")
    with pytest.raises(RecipeError, match="is no image"):
        load_recipe(tmp_path / "note.png")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: "{", "no JSON"),
        (lambda text: "[]", "version 1"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "version 1"),
        (lambda text: text.replace('"width"', '"breadth"'), "missing \\['width'\\], unknown \\['breadth'\\]"),
        (lambda text: text.replace('"width": 32', '"width": "32"'), "width='32' must be an integer"),
        (lambda text: text.replace('"width": 32', '"width": null'), "width is missing"),
        (lambda text: text.replace('"qwen_image"', "null"), "model or request_id is missing"),
    ],
)
def test_a_recipe_that_was_tampered_with_says_what_is_wrong(recipe, change, words):
    with pytest.raises(RecipeError, match=words):
        Recipe.from_json(change(recipe.as_json()))


def test_the_chunk_has_its_documented_name(tmp_path, recipe):
    with Image.open(painted(recipe).save(tmp_path / "circle.png")) as saved:
        assert saved.text[RECIPE_KEY] == recipe.as_json()
