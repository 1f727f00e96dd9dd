"""A PNG carries its recipe, and the recipe makes the same request again."""

import json
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from PIL.JpegImagePlugin import get_sampling

from qwen_image_client import GeneratedImage, InvalidRequest, Recipe, RecipeError, load_recipe
from qwen_image_client._images import RECIPE_KEY, TEXT_KEY, encode_lossy
from qwen_image_client._request import expand_requests
from qwen_image_client._tensors import make_input_tensors


def painted(recipe):
    pixels = np.random.default_rng(0).integers(0, 256, (recipe.height, recipe.width, 3), dtype=np.uint8)
    return GeneratedImage(Image.fromarray(pixels), None, recipe)


def test_a_recipe_survives_the_file(tmp_path, recipe):
    image = painted(recipe)
    path = image.save(tmp_path / "circle.png")
    assert load_recipe(path) == recipe
    with Image.open(path) as saved:
        assert np.array_equal(np.asarray(saved), np.asarray(image.image))


@pytest.mark.parametrize("file_format", ["JPEG", "WEBP"])
def test_a_recipe_survives_a_lossy_file(tmp_path, recipe, file_format):
    path = tmp_path / "circle"
    path.write_bytes(encode_lossy(painted(recipe).image, recipe, file_format, 95))
    assert load_recipe(path) == recipe


def test_a_recipe_too_long_for_a_jpeg_is_left_out(tmp_path, recipe):
    (tmp_path / "long.jpg").write_bytes(
        encode_lossy(painted(recipe).image, replace(recipe, prompt="红" * 20_000), "JPEG", 95)
    )
    with pytest.raises(RecipeError, match="carries no recipe"):
        load_recipe(tmp_path / "long.jpg")


@pytest.mark.parametrize(("quality", "sampling"), [(89, 2), (90, 0), (100, 0)])
def test_a_jpeg_has_full_colour_resolution_from_quality_90_on(recipe, quality, sampling):
    data = encode_lossy(painted(recipe).image, recipe, "JPEG", quality)
    with Image.open(BytesIO(data)) as saved:
        assert get_sampling(saved) == sampling


def test_a_recipe_makes_the_same_tensors_again(tmp_path, recipe):
    rows = expand_requests(**load_recipe(painted(recipe).save(tmp_path / "circle.png")).as_arguments())
    tensors = make_input_tensors(rows)
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


def test_people_can_read_that_there_was_no_guidance(recipe):
    assert "CFG scale: 1.0" in replace(recipe, negative_prompt=None, true_cfg_scale=1.0).as_text()


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
        (lambda text: text.replace('"width": 32', '"width": null'), "width=None must be an integer"),
        (lambda text: text.replace('"qwen_image"', "null"), "model must be text"),
        (lambda text: text.replace('"task": "generate"', '"task": "paint"'), "task='paint' must be one of"),
        (lambda text: text.replace('"image_sha256": []', '"image_sha256": "ab"'), "must be a list of texts"),
        (lambda text: text.replace('"image_sha256": []', '"image_sha256": [1]'), "image_sha256 must be text"),
        (lambda text: text.replace('"strength": null', '"strength": "much"'), "strength='much' must be a number"),
    ],
)
def test_a_recipe_that_was_tampered_with_says_what_is_wrong(recipe, change, words):
    with pytest.raises(RecipeError, match=words):
        Recipe.from_json(change(recipe.as_json()))


def test_the_chunk_has_its_documented_name(tmp_path, recipe):
    with Image.open(painted(recipe).save(tmp_path / "circle.png")) as saved:
        assert saved.text[RECIPE_KEY] == recipe.as_json()


@pytest.fixture
def inpainted(recipe):
    return replace(
        recipe,
        sigmas=None,
        num_inference_steps=3,
        requested_num_inference_steps=5,
        strength=0.6,
        image_sha256=("ab",),
        mask_sha256="cd",
    )


@pytest.fixture
def edited(recipe):
    return replace(recipe, sigmas=None, task="edit", model="qwen_image_edit", image_sha256=("ab", "cd"))


def test_recipes_with_pictures_survive_the_file(tmp_path, inpainted, edited):
    for name, recipe in (("inpainted.png", inpainted), ("edited.png", edited)):
        assert load_recipe(painted(recipe).save(tmp_path / name)) == recipe


def test_a_recipe_saved_before_there_were_pictures_can_be_read(recipe):
    record = json.loads(recipe.as_json())
    for name in ("requested_num_inference_steps", "strength", "image_sha256", "mask_sha256", "task"):
        del record[name]
    assert Recipe.from_json(json.dumps(record)) == recipe


def test_a_recipe_of_a_newer_client_can_be_read_where_its_new_fields_are_empty(recipe):
    record = json.loads(recipe.as_json())
    assert Recipe.from_json(json.dumps({**record, "sampler": None})) == recipe
    with pytest.raises(RecipeError, match=r"unknown \['sampler'\]"):
        Recipe.from_json(json.dumps({**record, "sampler": "euler"}))


def test_a_recipe_without_a_part_of_the_steps_is_written_as_before_there_was_one(recipe):
    assert json.loads(recipe.as_json()).keys() == {
        *("version", "prompt", "negative_prompt", "seed", "num_inference_steps", "true_cfg_scale", "width", "height"),
        *("sigmas", "requested_num_inference_steps", "strength", "image_sha256", "mask_sha256", "task", "model"),
        "request_id",
    }


def test_guidance_in_a_part_of_the_steps_is_in_the_recipe(tmp_path, recipe):
    guided = replace(recipe, cfg_start=0.25, cfg_end=0.75)
    again = load_recipe(painted(guided).save(tmp_path / "circle.png"))
    assert again == guided
    assert (again.as_arguments()["cfg_start"], again.as_arguments()["cfg_end"]) == (0.25, 0.75)
    assert "CFG scale: 4.1, CFG start: 0.25, CFG end: 0.75, Sigmas: 1.0 " in again.as_text()


def test_a_recipe_that_started_from_a_picture_asks_for_the_steps_that_were_asked_for(inpainted):
    arguments = inpainted.as_arguments(image="start.png", mask_image="mask.png")
    assert (arguments["num_inference_steps"], arguments["strength"]) == (5, 0.6)
    assert (arguments["image"], arguments["mask_image"]) == ("start.png", "mask.png")


@pytest.mark.parametrize(("given", "missing"), [({"mask_image": b"m"}, "its image"), ({"image": b"i"}, "mask_image")])
def test_a_recipe_says_which_of_its_pictures_is_missing(inpainted, given, missing):
    with pytest.raises(RecipeError, match=missing):
        inpainted.as_arguments(**given)


def test_an_edits_recipe_is_no_generates_and_the_other_way_round(recipe, edited):
    assert edited.as_edit_arguments(["a.png", "b.png"])["images"] == ["a.png", "b.png"]
    assert edited.as_edit_arguments(["a.png", "b.png"])["num_inference_steps"] == 3
    with pytest.raises(RecipeError, match="as_edit_arguments"):
        edited.as_arguments()
    with pytest.raises(RecipeError, match="as_arguments"):
        recipe.as_edit_arguments("a.png")


def test_people_can_read_what_a_picture_was_made_from(inpainted):
    assert "Strength: 0.6, Picture SHA-256: ab, Mask SHA-256: cd" in inpainted.as_text()
