"""A checkpoint is checked before anything heavy is loaded, and what is wrong is said."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from build.tiny_checkpoint import write_tiny_checkpoint
from qwen_image.checkpoint import open_checkpoint, resolve_checkpoint
from qwen_image.checkpoint.checks import COMPONENTS
from qwen_image.checkpoint.files import read_json
from qwen_image.errors import CheckpointError
from qwen_image.families import QWEN_IMAGE, QWEN_IMAGE_EDIT, QWEN_IMAGE_EDIT_PLUS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def copy(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    """The tiny checkpoint, free to be broken."""
    return copied(tiny_checkpoint, tmp_path)


@pytest.fixture
def edit_copy(tiny_edit_plus_checkpoint: Path, tmp_path: Path) -> Path:
    return copied(tiny_edit_plus_checkpoint, tmp_path)


def copied(checkpoint: Path, tmp_path: Path) -> Path:
    """Its weights are links, all else is copied."""

    def link_weights(source: str, target: str) -> None:
        if source.endswith(".safetensors"):
            Path(target).symlink_to(source)
        else:
            shutil.copy(source, target)

    return Path(shutil.copytree(checkpoint, tmp_path / "copy", copy_function=link_weights))


def change(path: Path, **values) -> None:
    """Set keys of a JSON file; None takes a key out."""
    contents = json.loads(path.read_text()) | values
    path.write_text(json.dumps({name: value for name, value in contents.items() if value is not None}))


def test_a_good_checkpoint_opens(copy):
    checkpoint = open_checkpoint(str(copy))
    assert checkpoint.folder == copy
    assert checkpoint.family is QWEN_IMAGE
    assert (checkpoint.prompt_embeds_dim, checkpoint.token_channels) == (64, 64)
    assert checkpoint.config("vae")["z_dim"] == 16
    assert checkpoint.config("scheduler")["shift_terminal"] == 0.02
    assert checkpoint.edit is None
    assert checkpoint.tokenizer_folder == copy / "tokenizer"


def test_edit_checkpoints_open_each_with_its_family(tiny_edit_checkpoint, tiny_edit_plus_checkpoint):
    for folder, family, condition_area in (
        (tiny_edit_checkpoint, QWEN_IMAGE_EDIT, 128 * 128),
        (tiny_edit_plus_checkpoint, QWEN_IMAGE_EDIT_PLUS, 112 * 112),
    ):
        checkpoint = open_checkpoint(folder)
        assert checkpoint.family is family
        assert checkpoint.edit == replace(family.edit, condition_area=condition_area, reference_area=128 * 128)
        assert checkpoint.tokenizer_folder == folder / "processor"


def test_the_areas_are_the_familys_if_the_checkpoint_names_none(edit_copy):
    change(edit_copy / "model_index.json", _condition_area=None, _reference_area=128 * 256)
    assert open_checkpoint(edit_copy).edit == replace(QWEN_IMAGE_EDIT_PLUS.edit, reference_area=128 * 256)


@pytest.mark.parametrize("key", ["_condition_area", "_reference_area"])
@pytest.mark.parametrize("area", [[112, 112], "12544", 12544.0, True, 4095, -1])
def test_an_area_that_no_picture_could_have_is_named(edit_copy, key, area):
    change(edit_copy / "model_index.json", **{key: area})
    with pytest.raises(CheckpointError, match=rf"{key}=.* must be a whole number of pixels, 4096 or more"):
        open_checkpoint(edit_copy)


def test_an_area_that_nothing_would_read_is_refused(copy):
    change(copy / "model_index.json", _reference_area=128 * 128)
    with pytest.raises(
        CheckpointError, match="_reference_area is for families that edit; a QwenImagePipeline does not"
    ):
        open_checkpoint(copy)


def test_a_processor_is_a_component_of_edit_checkpoints(edit_copy):
    change(edit_copy / "model_index.json", processor=["transformers", "Qwen3VLProcessor"])
    message = "processor is a Qwen3VLProcessor; a QwenImageEditPlusPipeline needs a Qwen2VLProcessor"
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(edit_copy)
    change(edit_copy / "model_index.json", processor=None)
    with pytest.raises(CheckpointError, match=r"has no processor: the folder and its line in model_index.json"):
        open_checkpoint(edit_copy)


def test_a_processor_without_its_files_is_refused(edit_copy):
    tokenizer = edit_copy / "processor" / "tokenizer.json"
    tokenizer.rename(edit_copy / "tokenizer.json")
    with pytest.raises(CheckpointError, match=r"processor has neither tokenizer.json nor vocab.json"):
        open_checkpoint(edit_copy)
    (edit_copy / "tokenizer.json").rename(tokenizer)
    (edit_copy / "processor" / "processor_config.json").unlink()
    with pytest.raises(CheckpointError, match=r"processor has neither preprocessor_config.json nor processor_config"):
        open_checkpoint(edit_copy)
    (edit_copy / "processor" / "preprocessor_config.json").write_text("{}")
    open_checkpoint(edit_copy)


@pytest.mark.parametrize("flag", ["guidance_embeds", "use_additional_t_cond", "use_layer3d_rope"])
def test_a_transformer_that_computes_otherwise_is_refused(copy, flag):
    change(copy / "transformer" / "config.json", **{flag: True})
    with pytest.raises(CheckpointError, match=rf"transformer/config.json: {flag} is set; it is not served"):
        open_checkpoint(copy)
    change(copy / "transformer" / "config.json", **{flag: False})
    open_checkpoint(copy)


def test_a_transformer_that_modulates_references_otherwise_is_served(tiny_edit_plus_checkpoint, tmp_path):
    assert open_checkpoint(tiny_edit_plus_checkpoint).config("transformer")["zero_cond_t"] is True
    plain = write_tiny_checkpoint(tmp_path / "plain", pipeline="QwenImageEditPlusPipeline")
    assert open_checkpoint(plain).config("transformer")["zero_cond_t"] is False


def test_the_default_size_is_the_checkpoints_own_if_it_names_one(copy):
    change(copy / "model_index.json", _default_size=[320, 512])
    assert open_checkpoint(copy).default_size == (320, 512)


def test_the_default_size_is_the_familys_if_the_checkpoint_names_none(copy):
    change(copy / "model_index.json", _default_size=None)
    assert open_checkpoint(copy).default_size == (1328, 1328)


def test_a_folder_without_an_index_is_no_checkpoint(copy):
    (copy / "model_index.json").unlink()
    with pytest.raises(CheckpointError, match=r"copy is no diffusers checkpoint: it has no model_index.json"):
        open_checkpoint(copy)


def test_a_folder_that_does_not_exist_is_no_checkpoint(tmp_path):
    with pytest.raises(CheckpointError, match=r"nowhere is no diffusers checkpoint"):
        open_checkpoint(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"model_index.json can't be read as JSON: Expecting"),
        ("", r"model_index.json can't be read as JSON"),
        ("[]", r"model_index.json must hold a JSON object, not list"),
        ("null", r"model_index.json must hold a JSON object, not NoneType"),
        ("{}", r"_class_name=None is not served; served are QwenImageEditPipeline, .*, QwenImagePipe"),
    ],
)
def test_an_index_that_is_no_json_object_is_refused(copy, text, message):
    (copy / "model_index.json").write_text(text)
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(copy)


def test_an_index_that_is_not_utf8_is_refused(copy):
    (copy / "model_index.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(CheckpointError, match=r"model_index.json can't be read as JSON: 'utf-8'"):
        open_checkpoint(copy)


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"nothing.json is missing"):
        read_json(tmp_path / "nothing.json")


def test_another_pipeline_class_is_refused_with_what_is_served(copy):
    change(copy / "model_index.json", _class_name="FluxPipeline")
    with pytest.raises(CheckpointError, match=r"_class_name='FluxPipeline' is not served; served are QwenImage"):
        open_checkpoint(copy)


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_whose_folder_is_missing_is_named(copy, component):
    shutil.rmtree(copy / component)
    with pytest.raises(CheckpointError, match=rf"has no {component}: the folder and its line in model_index.json"):
        open_checkpoint(copy)


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_that_the_index_does_not_name_is_named(copy, component):
    change(copy / "model_index.json", **{component: None})
    with pytest.raises(CheckpointError, match=rf"has no {component}: "):
        open_checkpoint(copy)


def test_who_needs_no_weights_opens_a_checkpoint_without_them(copy):
    for weights in copy.rglob("*.safetensors"):
        weights.unlink()
    assert open_checkpoint(copy, needs_weights=False).prompt_embeds_dim == 64


@pytest.mark.parametrize("needs_weights", [True, False])
@pytest.mark.parametrize("component", ["transformer", "vae", "text_encoder", "scheduler"])
def test_a_component_without_its_configuration_is_named(copy, component, needs_weights):
    for config in (copy / component).glob("*config.json"):
        config.unlink()
    with pytest.raises(CheckpointError, match=rf"{component}/\w*config.json is missing"):
        open_checkpoint(copy, needs_weights=needs_weights)


def test_a_tokenizer_without_its_vocabulary_is_refused(copy):
    (copy / "tokenizer" / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"tokenizer has neither tokenizer.json nor vocab.json"):
        open_checkpoint(copy)
    (copy / "tokenizer" / "vocab.json").write_text("{}")
    open_checkpoint(copy)


@pytest.mark.parametrize(
    ("component", "expected"),
    [
        ("transformer", "QwenImageTransformer2DModel"),
        ("vae", "AutoencoderKLQwenImage"),
        ("text_encoder", "Qwen2_5_VLForConditionalGeneration"),
        ("scheduler", "FlowMatchEulerDiscreteScheduler"),
    ],
)
def test_a_component_of_another_class_is_refused_with_what_is_needed(copy, component, expected):
    change(copy / "model_index.json", **{component: ["diffusers", "SomethingElse"]})
    message = rf"{component} is a SomethingElse; a QwenImagePipeline needs a {expected}"
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(copy)


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        (
            "text_encoder/config.json",
            {"text_config": {"hidden_size": 128}},
            "text_encoder hidden_size is 128, transformer joint_attention_dim is 64",
        ),
        (
            "text_encoder/config.json",
            {"text_config": None, "hidden_size": 32},
            "text_encoder hidden_size is 32, transformer joint_attention_dim is 64",
        ),
        (
            "transformer/config.json",
            {"joint_attention_dim": 3584},
            "text_encoder hidden_size is 64, transformer joint_attention_dim is 3584",
        ),
        (
            "transformer/config.json",
            {"joint_attention_dim": None},
            "text_encoder hidden_size is 64, transformer joint_attention_dim is None",
        ),
        ("transformer/config.json", {"in_channels": 16}, "transformer in_channels is 16, 4 x vae z_dim is 64"),
        ("transformer/config.json", {"out_channels": 64}, "transformer out_channels is 64, vae z_dim is 16"),
        ("vae/config.json", {"z_dim": 4}, "transformer in_channels is 64, 4 x vae z_dim is 16"),
        ("vae/config.json", {"z_dim": None}, "transformer in_channels is 64, 4 x vae z_dim is 0"),
        ("vae/config.json", {"latents_mean": [0.0] * 15}, "length of vae latents_mean is 15, vae z_dim is 16"),
        ("vae/config.json", {"latents_std": None}, "length of vae latents_std is 0, vae z_dim is 16"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_components_that_do_not_fit_together_are_refused_with_both_numbers(copy, file, values, message):
    change(copy / file, **values)
    with pytest.raises(CheckpointError, match=f"the components don't fit together: {message}$"):
        open_checkpoint(copy)


def test_a_local_folder_resolves_to_itself(tmp_path, monkeypatch):
    (tmp_path / "owner" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert resolve_checkpoint("owner/name") == tmp_path / "owner" / "name"
    assert resolve_checkpoint(str(tmp_path)) == tmp_path


def test_a_hugging_face_id_needs_a_pinned_revision():
    with pytest.raises(CheckpointError, match=r"is no folder here; .* pin its revision: a commit hash"):
        resolve_checkpoint("Qwen/Qwen-Image")


@pytest.mark.parametrize("needs_weights", [True, False])
def test_files_of_weights_are_downloaded_only_for_who_needs_them(monkeypatch, needs_weights):
    asked = {}

    def snapshot_download(name, *, revision, allow_patterns):
        asked[name] = (revision, set(allow_patterns))
        return "/somewhere"

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    resolve_checkpoint("Qwen/Qwen-Image", "abc", needs_weights=needs_weights)
    assert asked == {"Qwen/Qwen-Image": ("abc", {"*.json", "*.txt"} | ({"*.safetensors"} if needs_weights else set()))}


def test_a_revision_that_may_move_is_told_as_the_commit_that_it_is(monkeypatch, caplog):
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **_: f"/hub/snapshots/{'a' * 40}")
    resolve_checkpoint("Qwen/Qwen-Image", "main")
    resolve_checkpoint("Qwen/Qwen-Image", "a" * 40)
    assert caplog.messages == [
        f"Qwen/Qwen-Image: revision main is commit {'a' * 40} now; name that to serve the same again"
    ]


def test_without_a_network_a_hugging_face_id_is_one_line():
    """A process of its own: the library reads the address when it is imported."""
    command = [sys.executable, "build/repository.py", "--checkpoint", "Qwen/Qwen-Image", "--revision", "main"]
    nowhere = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": "/nowhere"}
    done = subprocess.run(command, cwd=ROOT, env=nowhere, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: checkpoint 'Qwen/Qwen-Image' is no folder here, and Hugging Face gives no revision")


def test_a_revision_of_a_folder_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="revision='main' is for a Hugging Face id"):
        resolve_checkpoint(str(tmp_path), "main")


@pytest.mark.parametrize("name", ["nowhere", "/no/where", "./no", "../no", "~/no", "a/b/c", "/nowhere"])
def test_what_is_neither_a_folder_nor_an_id_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match=r"is neither a folder nor a Hugging Face id \(owner/name\)"):
        resolve_checkpoint(name)


@pytest.mark.parametrize("size", [[128], "128", [128, 100], [0, 128], [128.0, 128]])
def test_a_default_size_that_no_request_could_have_is_named(copy, size):
    change(copy / "model_index.json", _default_size=size)
    with pytest.raises(CheckpointError, match=r"_default_size=.* must be"):
        open_checkpoint(copy)


def test_a_component_that_is_no_pair_is_named(copy):
    change(copy / "model_index.json", vae="AutoencoderKLQwenImage")
    with pytest.raises(CheckpointError, match="vae='AutoencoderKLQwenImage' must be"):
        open_checkpoint(copy)


def test_no_name_is_no_checkpoint():
    with pytest.raises(CheckpointError, match="neither a folder nor a Hugging Face id"):
        resolve_checkpoint("")
