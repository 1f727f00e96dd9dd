"""The command line: its values, its exit codes, its files."""

from dataclasses import replace

import pytest
from PIL import Image

from qwen_image_client import GeneratedImage, InvalidRequest
from qwen_image_client.cli import main
from qwen_image_client.cli.arguments import parse
from qwen_image_client.cli.commands import read_options
from qwen_image_client.cli.files import InputFiles, complete_pattern, save
from qwen_image_client.integration import slug
from tests.client.scripted_server import refusal, scripted_server


def options(*argv, command="generate"):
    arguments = parse([command, *argv])
    return read_options(arguments, InputFiles.read(arguments.images, arguments.mask))


def test_options_left_out_are_left_to_the_server():
    assert options("a red circle") == {"prompt": "a red circle", "negative_prompt": " ", "num_images": 1}


@pytest.mark.parametrize(
    ("given", "guidance"),
    [
        ([], {"negative_prompt": " "}),
        (["--true-cfg-scale", "2"], {"negative_prompt": " ", "true_cfg_scale": 2}),
        (["--true-cfg-scale", "1"], {"true_cfg_scale": 1}),
        (["--default-guidance", "off"], {}),
        (["--default-guidance", "off", "--negative-prompt", "red"], {"negative_prompt": "red"}),
        (["--default-guidance", "off", "--true-cfg-scale", "2"], {"negative_prompt": " ", "true_cfg_scale": 2}),
    ],
)
def test_guidance_is_on_unless_it_is_turned_off(given, guidance):
    assert options("a", *given) == {"prompt": "a", "num_images": 1, **guidance}


def test_the_environment_turns_default_guidance_off(monkeypatch, capsys):
    monkeypatch.setenv("QWEN_IMAGE_DEFAULT_GUIDANCE", "off")
    assert options("a") == {"prompt": "a", "num_images": 1}
    monkeypatch.setenv("QWEN_IMAGE_DEFAULT_GUIDANCE", "none")
    with pytest.raises(SystemExit):
        options("a")
    assert "'none' must be on or off" in capsys.readouterr().err


def test_every_option_reaches_the_call():
    assert options(
        *("a", "--negative-prompt", "", "--width", "32", "--height", "16", "--num-inference-steps", "4"),
        *("--true-cfg-scale", "2.5", "--seed", "-3", "--sigmas", "1.0,0.5", "--num-images", "2"),
    ) == {
        "prompt": "a",
        "negative_prompt": "",
        "width": 32,
        "height": 16,
        "num_inference_steps": 4,
        "true_cfg_scale": 2.5,
        "seed": -3,
        "sigmas": (1.0, 0.5),
        "num_images": 2,
    }


@pytest.fixture
def saved(tmp_path, recipe):
    return str(GeneratedImage(Image.new("RGB", (32, 16)), None, recipe).save(tmp_path / "saved.png"))


def test_a_saved_recipe_runs_again(saved, recipe):
    assert options("--from-image", saved) == {**recipe.as_arguments(), "num_images": 1}


def test_a_saved_recipe_without_guidance_has_none_again_unless_it_is_asked_for(tmp_path, recipe):
    plain = replace(recipe, negative_prompt=None, true_cfg_scale=1.0)
    saved = str(GeneratedImage(Image.new("RGB", (32, 16)), None, plain).save(tmp_path / "plain.png"))
    assert options("--from-image", saved) == {**plain.as_arguments(), "num_images": 1}
    assert options("--from-image", saved, "--true-cfg-scale", "2")["negative_prompt"] == " "
    assert options("--from-image", saved, "--negative-prompt", "red")["true_cfg_scale"] is None


def test_other_options_change_a_saved_recipe(saved, recipe):
    changed = options("a blue circle", "--from-image", saved, "--seed", "1")
    assert changed == {**recipe.as_arguments(), "prompt": "a blue circle", "seed": 1, "num_images": 1}


def test_a_new_number_of_steps_drops_the_saved_sigmas(saved):
    changed = options("--from-image", saved, "--num-inference-steps", "9")
    assert (changed["num_inference_steps"], changed["sigmas"]) == (9, None)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["generate"], "needs a PROMPT or --from-image"),
        (["generate", "a", "--width", "wide"], "--width"),
        (["generate", "a", "--sigmas", "1,x"], "isn't a list of numbers"),
        (["generate", "a", "--steps", "4"], "--steps"),
        (["paint", "a"], "paint"),
        ([], "required"),
    ],
)
def test_a_wrong_command_line_exits_with_2(argv, words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["a", "--output", "x.jpg"], "must end in .png"),
        (["a", "--output", "{sed}.png"], "sed"),
        (["a", "--output", "{seed:x}{.png"], "--output"),
        (["a", "--output", "{seed:zz}.png"], "--output"),
        (["a", "--num-images", "0"], "num_images=0"),
        (["a", "--url", "ftp://x"], "use one of"),
        (["a", "--timeout", "-1"], "timeout_s=-1"),
        (["--from-image", "/nowhere.png"], "/nowhere.png"),
        (["a", "--output", "/dev/null/x.png"], "/dev/null"),
    ],
)
def test_a_wrong_value_exits_with_2_before_anything_is_sent(argv, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["generate", *argv]) == 2
    assert words in capsys.readouterr().err


def test_a_value_the_server_refuses_exits_with_2(capsys):
    with scripted_server(refusal(400, "height=17 must be a multiple of 16")) as server:
        assert main(["generate", "a", "--height", "17", "--url", server.url]) == 2
    printed = capsys.readouterr()
    assert "height=17 must be a multiple of 16" in printed.err
    assert printed.out == ""


def test_a_server_that_fails_exits_with_1(capsys):
    with scripted_server(refusal(500, "the engine broke")) as server:
        assert main(["generate", "a", "--url", server.url, "--quiet"]) == 1
    assert "error: the engine broke" in capsys.readouterr().err


def test_a_server_that_is_not_there_exits_with_1(closed_port, capsys):
    assert main(["ready", "--url", f"127.0.0.1:{closed_port}"]) == 1
    assert main(["ready", "--url", f"127.0.0.1:{closed_port}", "--wait", "0.1"]) == 1
    assert main(["cancel", "some-id", "--url", f"http://127.0.0.1:{closed_port}"]) == 1
    assert "is not ready" in capsys.readouterr().err


def test_cancel_prints_how_many_images_were_ended(capsys):
    with scripted_server() as server:
        assert main(["cancel", "some-id", "--url", server.url]) == 0
    assert server.cancelled == ["some-id"]
    assert capsys.readouterr().out == "1\n"


def test_the_url_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("QWEN_IMAGE_URL", "https://images.example")
    assert parse(["ready"]).url == "https://images.example"


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("A red circle!", "a-red-circle"),
        ("../../etc/passwd", "etc-passwd"),
        ("红色的 圆", "红色的-圆"),
        ("...", "image"),
        ("x" * 500, "x" * 120),
        ("圆" * 500, "圆" * 40),
    ],
)
def test_a_prompt_becomes_a_file_name(prompt, name):
    assert slug(prompt) == name


@pytest.mark.parametrize(
    ("output", "num_images", "pattern"),
    [
        ("circle.png", 1, "circle.png"),
        ("circle.png", 2, "circle-seed{seed}.png"),
        ("{index}.PNG", 2, "{index}.PNG"),
        ("out/", 1, "out/{prompt}-seed{seed}.png"),
        (".", 1, "./{prompt}-seed{seed}.png"),
    ],
)
def test_outputs_become_patterns(output, num_images, pattern):
    assert complete_pattern(output, num_images) == pattern


def test_no_file_is_overwritten(tmp_path, recipe):
    image = GeneratedImage(Image.new("RGB", (32, 16)), None, replace(recipe, prompt="a red circle", seed=42))
    pattern = f"{tmp_path}/new/{{prompt}}-seed{{seed}}.png"
    names = [save(image, pattern, index=1).name for _ in range(3)]
    assert names == ["a-red-circle-seed42.png", "a-red-circle-seed42-2.png", "a-red-circle-seed42-3.png"]


def test_an_output_folder_cannot_be_smuggled_in_by_a_prompt(tmp_path, recipe):
    image = GeneratedImage(Image.new("RGB", (32, 16)), None, replace(recipe, prompt="/etc/../x"))
    assert save(image, f"{tmp_path}/{{prompt}}.png", index=1) == tmp_path / "etc-x.png"


def test_outputs_are_checked_before_the_server_is_asked():
    with pytest.raises(InvalidRequest, match="must end in"):
        complete_pattern("circle", 1)
