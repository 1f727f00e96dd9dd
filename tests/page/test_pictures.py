"""Pictures that a visitor brings."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from PIL import Image

from qwen_image_client import load_recipe
from tests.pictures import picture


def test_a_picture_to_start_from_gives_its_shape_and_as_much_as_its_strength_keeps(visitor, tmp_path):
    visitor.open_tab("From a picture")
    visitor.upload("picture", picture(320, 160))
    visitor.paint("a green star", steps=10, picture_strength=0.3)
    visitor.wait_for_picture()
    recipe = load_recipe(visitor.download())
    assert (recipe.strength, recipe.num_inference_steps) == (0.3, 3)
    assert (recipe.width, recipe.height) == (176, 96)
    assert recipe.image_sha256 == (_sha256(tmp_path / "picture.png"),)  # the file as it was uploaded


def test_a_brush_stroke_is_painted_and_the_rest_kept(visitor):
    before = Image.new("RGB", (128, 128), "yellow")
    visitor.open_tab("Inpaint")
    visitor.page.locator("#editor canvas").first.wait_for()
    visitor.upload("editor", before)
    visitor.page.get_by_label("Brush").first.wait_for()
    visitor.brush()
    visitor.paint("a red circle", steps=4, inpaint_strength=1)
    visitor.wait_for_picture()
    file = visitor.download()
    with Image.open(file) as image:
        changed = (np.asarray(image) != np.asarray(before)).any(axis=2)
    assert load_recipe(file).mask_sha256 is not None
    assert changed[64, 48:80].all()
    assert not changed[:32].any()
    assert not changed[-32:].any()


def test_inpainting_without_a_stroke_is_refused_in_words(visitor):
    visitor.open_tab("Inpaint")
    visitor.page.locator("#editor canvas").first.wait_for()
    visitor.upload("editor", picture(128, 128))
    visitor.page.get_by_label("Brush").first.wait_for()
    visitor.paint("a red circle")
    visitor.wait_for_status("brush over what is to be painted")


def test_a_painted_picture_is_what_the_next_one_starts_from(visitor):
    visitor.paint("a green star", steps=2, seed=5)
    visitor.wait_for_picture()
    visitor.press("start-from")
    visitor.page.locator("#picture img").wait_for()
    visitor.paint("a red circle", steps=4)
    visitor.wait_for_picture()
    assert visitor.recipe()["From pictures"] == "1"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
