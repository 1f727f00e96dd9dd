"""From a prompt to a picture, and what becomes of it."""

from __future__ import annotations

from PIL import Image

from demo.checker import check
from demo.scenes import Scene, Thing
from qwen_image_client import load_recipe
from tests.pictures import levels_apart

PROMPT = "a red circle above a blue square on a yellow background"
SCENE = Scene("pair", (Thing("red", "circle"), Thing("blue", "square")), relation="above")


def test_a_prompt_becomes_its_picture_whose_file_has_the_recipe(visitor):
    visitor.paint(PROMPT, seed=0, steps=20)
    visitor.wait_for_picture()
    file = visitor.download()
    recipe = load_recipe(file)
    assert file.name == "a-red-circle-above-a-blue-square-on-a-yellow-background-seed0.png"
    assert (recipe.prompt, recipe.seed, recipe.num_inference_steps) == (PROMPT, 0, 20)
    with Image.open(file) as image:
        assert check(SCENE, image).is_right


def test_the_picture_is_seen_while_it_is_painted(visitor):
    visitor.record_stage()
    visitor.paint(PROMPT, seed=0, steps=48)
    visitor.wait_for_picture()
    *previews, final = visitor.stages()
    assert final.endswith(".png")
    assert len(previews) >= 3
    assert all(preview.endswith(".jpg") for preview in previews)
    assert len({visitor.fetch(preview) for preview in previews}) == len(previews)


def test_enter_in_the_prompt_paints(visitor):
    visitor.write("steps", 3)
    visitor.write("prompt", "a purple heart")
    visitor.page.locator("#prompt textarea").press("Enter")
    visitor.wait_for_picture()


def test_ctrl_enter_paints_from_anywhere(visitor):
    visitor.write("prompt", "a purple heart")
    visitor.write("steps", 3)
    visitor.page.locator("#count input[type=number]").press("Control+Enter")
    visitor.wait_for_picture()


def test_without_a_seed_one_is_drawn_and_the_dice_writes_one_down(visitor):
    visitor.paint("a purple heart", steps=2)
    visitor.wait_for_picture()
    assert visitor.recipe()["Seed"].isdigit()
    assert visitor.read("seed") == ""
    visitor.press("dice")
    visitor.page.wait_for_function("document.querySelector('#seed textarea, #seed input').value !== ''")
    assert visitor.read("seed").isdigit()


def test_the_form_starts_with_the_defaults_of_the_server(visitor):
    assert (visitor.read("steps"), visitor.read("scale"), visitor.read("count")) == ("50", "4", "1")
    assert visitor.read("text-size") == "Square 1:1 · 128 × 128"


def test_guidance_is_on_unless_its_box_is_unticked_and_there_is_no_negative_prompt(visitor):
    visitor.paint("a purple heart", steps=2, scale=2.5)
    visitor.wait_for_picture()
    assert visitor.recipe()["Guidance"] == "2.5"
    assert "Negative prompt" not in visitor.recipe()
    visitor.page.locator("#guide-anyway input").uncheck()
    visitor.paint("a purple heart", seed=4)
    visitor.wait_for_picture()
    assert visitor.recipe()["Guidance"] == "off"
    visitor.paint("a purple heart", negative="red")
    visitor.wait_for_picture()
    assert (visitor.recipe()["Guidance"], visitor.recipe()["Negative prompt"]) == ("2.5", "red")


def test_a_picture_without_guidance_is_painted_again_without(visitor):
    visitor.page.locator("#guide-anyway input").uncheck()
    visitor.paint("a purple heart", steps=2, seed=4)
    visitor.wait_for_picture()
    first = Image.open(visitor.download()).copy()
    visitor.page.locator("#guide-anyway input").check()
    visitor.press("reuse")
    visitor.page.locator("#guide-anyway input:not(:checked)").wait_for()
    visitor.paint("a purple heart")
    visitor.wait_for_picture()
    with Image.open(visitor.download()) as again:
        assert levels_apart(first, again) <= 1


def test_the_gallery_keeps_every_picture_with_its_recipe(visitor):
    visitor.paint("a purple heart", steps=2, seed=1, count=3)
    visitor.wait_for_picture()
    visitor.paint("a green star", seed=9, count=1)
    visitor.wait_for_picture()
    assert visitor.thumbnails().count() == 4
    visitor.thumbnails().nth(2).click()
    visitor.page.locator("#recipe", has_text="a purple heart").wait_for()
    assert visitor.recipe() == {
        "Prompt": "a purple heart",
        "Seed": "2",
        "Size": "128 × 128",
        "Steps": "2",
        "Guidance": "4",
    }
    assert load_recipe(visitor.download()).seed == 2


def test_a_picture_of_the_gallery_gives_its_settings_back(visitor):
    visitor.paint("a purple heart", steps=2, seed=1, negative="red", scale=3)
    visitor.wait_for_picture()
    for field, text in {"prompt": "something else", "negative": "", "steps": 7, "seed": "", "scale": 9}.items():
        visitor.write(field, text)
    visitor.press("reuse")
    visitor.page.wait_for_function("document.querySelector('#prompt textarea').value === 'a purple heart'")
    fields = ("negative", "steps", "seed", "scale")
    assert [visitor.read(field) for field in fields] == ["red", "2", "1", "3"]


def test_a_wide_picture_has_the_size_that_the_list_names(visitor):
    visitor.page.locator("#text-size input").click()
    visitor.page.get_by_role("option", name="Landscape 16:9 · 160 × 96").click()
    visitor.paint("a purple heart", steps=2)
    visitor.wait_for_picture()
    assert visitor.recipe()["Size"] == "160 × 96"
    with Image.open(visitor.download()) as image:
        assert image.size == (160, 96)
