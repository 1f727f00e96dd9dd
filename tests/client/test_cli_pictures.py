"""The command line with pictures: to start from, to edit, with a mask."""

from dataclasses import replace

import pytest
from PIL import Image

from qwen_image_client import GeneratedImage
from qwen_image_client.cli import main
from qwen_image_client.cli.arguments import parse
from qwen_image_client.cli.commands import read_options
from qwen_image_client.cli.files import InputFiles, save_mask
from qwen_image_client.integration import sha256
from tests.client.scripted_server import refusal, scripted_server


def options(*argv):
    arguments = parse([str(argument) for argument in argv])
    return read_options(arguments, InputFiles.read(arguments.images, arguments.mask))


@pytest.fixture
def files(tmp_path):
    """Three files whose content is their name."""
    paths = [tmp_path / name for name in ("one.png", "two.jpg", "mask.png")]
    for path in paths:
        path.write_bytes(path.name.encode())
    return paths


@pytest.fixture
def saved(tmp_path, recipe):
    """Saves an image whose recipe differs in the given fields."""

    def save(**changes):
        changed = replace(recipe, sigmas=None, **changes)
        return GeneratedImage(Image.new("RGB", (32, 16)), None, changed).save(tmp_path / "saved.png")

    return save


def test_a_picture_to_start_from_reaches_the_call(files):
    one, _, mask = files
    assert options("generate", "a", "--image", one, "--strength", "0.5", "--mask", mask) == {
        "prompt": "a",
        "negative_prompt": " ",
        "image": b"one.png",
        "strength": 0.5,
        "mask_image": b"mask.png",
        "num_images": 1,
    }


def test_an_edit_takes_its_pictures_in_order_and_the_same_options_as_generate(files):
    one, two, _ = files
    common = ("--width", "32", "--seed", "3", "--sigmas", "1.0,0.5", "--negative-prompt", "")
    assert options("edit", "a", "--image", one, "--image", two, *common) == {
        **options("generate", "a", *common),
        "images": (b"one.png", b"two.jpg"),
    }


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["generate", "a", "--image", "x", "--image", "y"], "`qwen-image edit` takes several"),
        (["generate", "a", "--strength", "0.5"], "--strength needs --image"),
        (["generate", "a", "--mask", "x"], "--mask needs --image"),
        (["generate", "a", "--image", "x", "--save-mask", "y.png"], "--save-mask needs --mask"),
        (["edit", "a"], "--image"),
        (["edit", "--image", "x"], "edit needs a PROMPT or --from-image"),
        (["edit", "a", "--image", "x", "--strength", "0.5"], "--strength"),
    ],
)
def test_options_that_do_not_go_together_exit_with_2(argv, words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        ["generate", "a", "--image", "missing.png"],
        ["generate", "a", "--image", "one.png", "--mask", "missing.png"],
        ["edit", "a", "--image", "one.png", "--image", "missing.png"],
        ["edit", "a", "--image", "missing.png/"],
    ],
)
def test_a_file_that_cannot_be_read_is_named_before_anything_is_sent(argv, files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with scripted_server() as server:
        assert main([*argv, "--url", server.url]) == 2
    assert "missing.png" in capsys.readouterr().err
    assert server.requests == []


def test_a_mask_is_saved_as_png_or_not_at_all(files, capsys):
    one, _, mask = map(str, files)
    assert main(["generate", "a", "--image", one, "--mask", mask, "--save-mask", "mask.jpg"]) == 2
    assert "--save-mask mask.jpg must end in .png" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("counted", "name"), [("input_image 0 of row 0", "one.png"), ("mask_image of row 0", "mask.png")]
)
def test_what_the_server_says_of_a_picture_names_its_file(files, capsys, counted, name):
    one, _, mask = map(str, files)
    with scripted_server(refusal(400, f"{counted} is a GIF; send a PNG")) as server:
        assert main(["generate", "a", "--image", one, "--mask", mask, "--url", server.url]) == 2
    assert f"/{name} is a GIF; send a PNG" in capsys.readouterr().err


def test_an_edits_second_picture_is_named_too(files, capsys):
    one, two, _ = map(str, files)
    with scripted_server(refusal(400, "input_image 1 of row 0 is a GIF")) as server:
        assert main(["edit", "a", "--image", one, "--image", two, "--url", server.url]) == 2
    assert f"error: {two} is a GIF" in capsys.readouterr().err


def test_a_recipe_with_a_picture_runs_again_with_it(files, saved, capsys):
    one, _, mask = files
    digests = {"image_sha256": (sha256(b"one.png"),), "mask_sha256": sha256(b"mask.png")}
    path = saved(strength=0.5, requested_num_inference_steps=6, **digests)
    again = options("generate", "--from-image", path, "--image", one, "--mask", mask)
    assert (again["image"], again["mask_image"], again["strength"]) == (b"one.png", b"mask.png", 0.5)
    assert again["num_inference_steps"] == 6
    assert capsys.readouterr().err == ""


def test_another_picture_than_the_recipes_is_noted(files, saved, capsys):
    one, two, _ = files
    path = saved(task="edit", image_sha256=(sha256(b"one.png"), sha256(b"other")))
    assert options("edit", "--from-image", path, "--image", one, "--image", two)["images"] == (b"one.png", b"two.jpg")
    assert capsys.readouterr().err == f"note: {two} isn't what the recipe was made from\n"


@pytest.mark.parametrize(
    ("changes", "argv", "words"),
    [
        ({"image_sha256": ("ab",)}, ["generate"], "saved.png: the recipe needs its image"),
        ({"task": "edit"}, ["generate"], "use `qwen-image edit --from-image"),
        ({}, ["edit", "--image", "one.png"], "use `qwen-image generate --from-image"),
    ],
)
def test_a_recipe_that_lacks_its_pictures_says_so(changes, argv, words, files, saved, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*argv, "--from-image", str(saved(**changes))]) == 2
    assert words in capsys.readouterr().err


def test_a_mask_replaces_no_file(tmp_path):
    mask = Image.new("L", (4, 4))
    names = [save_mask(mask, tmp_path / "mask.png").name for _ in range(2)]
    assert names == ["mask.png", "mask-2.png"]


def test_a_picture_travels_as_the_file_it_is(files):
    with scripted_server(refusal(400, "no")) as server:
        main(["generate", "a", "--image", str(files[0]), "--url", server.url])
    (picture,) = [each for each in server.requests[0]["inputs"] if each["name"] == "input_image"]
    assert (picture["datatype"], picture["shape"]) == ("BYTES", [1, 1])
    assert picture["parameters"]["binary_data_size"] == 4 + len(b"one.png")
