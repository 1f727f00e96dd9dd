"""Rendering the model repository: complete, strict, and careful with what is there already."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from build import repository as build
from build.repository import TEMPLATES, parse_config, render_repository, substitute, templates_of
from build.settings import ALLOWED, PROFILES, GpuSettings, Settings
from build.skeleton_checkpoint import write_skeleton
from qwen_image.checkpoint import LoadFormat, open_checkpoint
from qwen_image.errors import CheckpointError, RenderError
from qwen_image.families import QWEN_IMAGE, QWEN_IMAGE_EDIT_PLUS
from qwen_image_contract import Limits

ENSEMBLES = ("qwen_image", "qwen_image_stream")
CPU_FILES = {str(path.relative_to(TEMPLATES)) for path in templates_of(Settings(), QWEN_IMAGE)}


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def parameters_of(repository: Path, model: str) -> dict[str, str]:
    path = repository / model / "config.pbtxt"
    return {name: each.string_value for name, each in parse_config(path, path.read_text()).parameters.items()}


@pytest.fixture
def templates(tmp_path, monkeypatch) -> Path:
    """The tracked templates copied, free to be changed; rendering reads the copy."""
    copy = Path(shutil.copytree(TEMPLATES, tmp_path / "templates", ignore=shutil.ignore_patterns("__pycache__")))
    monkeypatch.setattr(build, "TEMPLATES", copy)
    return copy


def test_every_template_of_the_settings_is_rendered(repository):
    assert files_in(repository).keys() == CPU_FILES
    left_out = {"qwen_image_edit", "qwen_image_edit_stream", "vae_decoder_plan", "vae_encoder_plan"}
    assert files_in(TEMPLATES).keys() - CPU_FILES == {f"{model}/config.pbtxt" for model in left_out}


def test_a_family_that_edits_has_ensembles_of_its_own():
    models = {path.relative_to(TEMPLATES).parts[0] for path in templates_of(Settings(), QWEN_IMAGE_EDIT_PLUS)}
    assert {"qwen_image_edit", "qwen_image_edit_stream", "sampler"} <= models
    assert models.isdisjoint(ENSEMBLES)


def test_no_placeholder_is_left(repository):
    for name, contents in files_in(repository).items():
        if name.endswith((".pbtxt", ".json")):
            assert b"$" not in contents, name


def test_code_is_copied_as_it_is(repository):
    templates = files_in(TEMPLATES)
    for name, contents in files_in(repository).items():
        if name.endswith(".py"):
            assert contents == templates[name], name


def test_every_model_has_a_version_folder_and_an_ensembles_is_empty(repository):
    for model in repository.iterdir():
        assert (model / "1").is_dir(), model
        assert (not any((model / "1").iterdir())) == (model.name in ENSEMBLES)


def test_rendered_json_is_json(repository):
    found = {path.parent.parent.name: json.loads(path.read_text()) for path in repository.rglob("*.json")}
    assert found["text_encoder"]["max_num_seqs"] == Settings().text_encoder_max_num_seqs
    assert found["text_encoder"]["enforce_eager"] is True


def test_the_checkpoints_facts_are_filled_in(repository, checkpoint):
    for model in ("validator", "dit", "vae_decoder"):
        assert parameters_of(repository, model)["checkpoint"] == str(checkpoint.folder)
    config = parse_config(repository, (repository / "dit" / "config.pbtxt").read_text())
    widths = {each.name: each.dims[-1] for each in config.input}
    assert widths["prompt_embeds"] == checkpoint.prompt_embeds_dim
    assert widths["latents"] == checkpoint.token_channels


def test_the_limits_and_the_settings_given_are_the_ones_rendered(checkpoint, tmp_path):
    settings = Settings(max_rows=3, dit_instances=2, max_images_in_flight=5, text_encoder_enforce_eager="false")
    limits = Limits(max_side=512, max_true_cfg_scale=7.5)
    repository = render_repository(checkpoint, tmp_path / "out", settings=settings, limits=limits)
    validator = parameters_of(repository, "validator")
    assert (validator["max_side"], validator["max_true_cfg_scale"]) == ("512", "7.5")
    assert parameters_of(repository, "sampler")["max_images_in_flight"] == "5"
    config = parse_config(repository, (repository / "dit" / "config.pbtxt").read_text())
    assert config.instance_group[0].count == 2
    for ensemble in ENSEMBLES:
        assert parse_config(repository, (repository / ensemble / "config.pbtxt").read_text()).max_batch_size == 3
    assert json.loads((repository / "text_encoder" / "1" / "model.json").read_text())["enforce_eager"] is False


def test_a_server_serves_one_gpu_however_many_it_sees(checkpoint, tmp_path):
    """Triton makes a KIND_GPU's instances on every GPU unless it is told which."""
    output = render_repository(checkpoint, tmp_path / "output", settings=GpuSettings(engine="torch"))
    configs = [output / name / "config.pbtxt" for name in ("dit", "vae_decoder", "vae_encoder")]
    groups = [parse_config(path, path.read_text()).instance_group[0] for path in configs]
    assert [(group.count, list(group.gpus)) for group in groups] == [(1, [0])] * 3
    with pytest.raises(RenderError, match="start one for each"):
        GpuSettings(engine="torch", dit_instances=2)


@pytest.mark.parametrize("load_format", LoadFormat)
def test_every_model_that_loads_weights_is_told_where_from(checkpoint, tmp_path, load_format):
    repository = render_repository(checkpoint, tmp_path / "out", settings=Settings(load_format=load_format))
    for model in ("dit", "vae_decoder", "vae_encoder", "text_encoder"):
        assert parameters_of(repository, model)["load_format"] == load_format
    assert json.loads((repository / "text_encoder" / "1" / "model.json").read_text())["load_format"] == load_format
    for model in ("validator", "sampler", "sampler_stream"):
        assert "load_format" not in parameters_of(repository, model)


def test_random_weights_have_no_plans_of_the_vae():
    assert GpuSettings().has_vae_plans
    dummy = GpuSettings(load_format=LoadFormat.DUMMY)
    assert dummy.needs_engines
    assert not dummy.has_vae_plans


@pytest.fixture(scope="module")
def skeleton(tmp_path_factory) -> Path:
    """Configurations without weights."""
    return write_skeleton(tmp_path_factory.mktemp("skeleton") / "tiny", dimensions="tiny")


def test_the_command_line_renders_without_weights_if_they_are_to_be_random(skeleton, tmp_path, monkeypatch, capsys):
    options = ["--checkpoint", str(skeleton), "--output", str(tmp_path / "out"), "--load-format", "dummy"]
    monkeypatch.setattr("sys.argv", ["repository.py", *options])
    build.main()
    assert capsys.readouterr().out.strip() == str(tmp_path / "out")
    assert parameters_of(tmp_path / "out", "dit")["load_format"] == "dummy"


def test_nothing_is_rendered_without_weights_if_they_are_to_be_read(skeleton, tmp_path):
    with pytest.raises(CheckpointError, match=r"transformer has no weights"):
        render_repository(open_checkpoint(skeleton, needs_weights=False), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_refuses_a_checkpoint_without_weights_otherwise(skeleton, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["repository.py", "--checkpoint", str(skeleton), "--output", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match=r"^error: .*transformer has no weights: .*load_format=dummy needs none$"):
        build.main()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ALLOWED)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_setting_that_is_none_of_those_allowed_is_an_error_with_them(name, profile):
    message = rf"^{name}='maybe' must be one of {', '.join(ALLOWED[name])}$"
    with pytest.raises(RenderError, match=message):
        PROFILES[profile](**{name: "maybe"})


def test_a_process_is_not_called_hanging_before_it_could_give_a_sign_of_life():
    with pytest.raises(RenderError, match=r"^watchdog_hangs_after_s=1\.0 must be at least 5\.0: "):
        Settings(watchdog_hangs_after_s=1.0)


def test_the_command_line_allows_the_same(checkpoint, tmp_path, monkeypatch, capsys):
    options = ["--checkpoint", str(checkpoint.folder), "--output", str(tmp_path / "out"), "--precision", "fp7"]
    monkeypatch.setattr("sys.argv", ["repository.py", *options])
    with pytest.raises(SystemExit):
        build.main()
    assert "invalid choice: 'fp7' (choose from 'fp32', 'bf16', 'fp8')" in capsys.readouterr().err.replace(
        "from fp32, bf16, fp8", "from 'fp32', 'bf16', 'fp8'"
    )


def test_rendering_leaves_the_templates_as_they_are(checkpoint, tmp_path):
    before = files_in(TEMPLATES)
    render_repository(checkpoint, tmp_path / "out")
    assert files_in(TEMPLATES) == before


def test_rendering_makes_the_folders_above_its_output(checkpoint, tmp_path):
    assert render_repository(checkpoint, tmp_path / "a" / "b" / "out").is_dir()


def test_an_earlier_rendering_is_replaced_as_a_whole(checkpoint, tmp_path):
    output = render_repository(checkpoint, tmp_path / "out", settings=Settings(max_rows=3))
    (output / "left_over").mkdir()
    (output / "left_over" / "config.pbtxt").write_text("name: 'left_over'")
    render_repository(checkpoint, output)
    assert files_in(output).keys() == CPU_FILES
    assert parse_config(output, (output / "qwen_image" / "config.pbtxt").read_text()).max_batch_size == 8
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_empty_folder_is_taken(checkpoint, tmp_path):
    (tmp_path / "out").mkdir()
    assert (render_repository(checkpoint, tmp_path / "out") / "dit").is_dir()


def test_a_foreign_folder_is_not_overwritten(checkpoint, tmp_path):
    (tmp_path / "out" / "qwen_image").mkdir(parents=True)
    (tmp_path / "out" / "diary.txt").write_text("dear diary")
    with pytest.raises(RenderError, match=r"out exists and is no rendered repository; name another folder"):
        render_repository(checkpoint, tmp_path / "out")
    assert files_in(tmp_path) == {"out/diary.txt": b"dear diary"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_file_in_the_outputs_place_is_not_overwritten(checkpoint, tmp_path):
    (tmp_path / "out").write_text("dear diary")
    with pytest.raises(RenderError, match=r"out exists and is no rendered repository"):
        render_repository(checkpoint, tmp_path / "out")
    assert files_in(tmp_path) == {"out": b"dear diary"}


@pytest.mark.parametrize("output", [".", "inside", "qwen_image"])
def test_the_templates_themselves_are_never_the_output(checkpoint, templates, output):
    before = files_in(templates)
    with pytest.raises(RenderError, match=r"is where the templates are; name another folder"):
        render_repository(checkpoint, templates / output)
    assert files_in(templates.parent) == {f"templates/{name}": contents for name, contents in before.items()}


def test_a_placeholder_without_a_value_is_an_error_with_its_name_and_file(checkpoint, templates, tmp_path):
    with (templates / "dit" / "config.pbtxt").open("a") as config:
        config.write("# ${no_such_value} and ${nor_this}\n")
    message = r"dit/config.pbtxt: no value for \$\{no_such_value\}, \$\{nor_this\}$"
    with pytest.raises(RenderError, match=message):
        render_repository(checkpoint, tmp_path / "out")


def test_a_value_without_a_placeholder_is_an_error_with_its_name(checkpoint, templates, tmp_path):
    for path in templates.rglob("config.pbtxt"):
        path.write_text(path.read_text().replace("${max_batch_tokens}", "1").replace("${tokens_per_call}", "1"))
    with pytest.raises(RenderError, match=r"no template uses the values max_batch_tokens, tokens_per_call$"):
        render_repository(checkpoint, tmp_path / "out")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ('name: "dit"\nno_such_field: 1\n', "no_such_field"),
        ('name: "dit\n', "2|1"),
        ("input [ { data_type: TYPE_FP31 } ]\n", "TYPE_FP31"),
    ],
)
def test_a_config_that_triton_would_refuse_is_an_error_with_its_file(checkpoint, templates, tmp_path, broken, message):
    path = templates / "dit" / "config.pbtxt"
    kept = "".join(f"# {name}\n" for name in sorted(set(re.findall(r"\$\{\w+\}", path.read_text()))))
    path.write_text(kept + broken)
    with pytest.raises(RenderError, match=rf"dit/config.pbtxt: not a Triton model configuration: .*({message})"):
        render_repository(checkpoint, tmp_path / "out")


def test_a_rendering_that_fails_leaves_nothing_behind_and_an_earlier_one_in_place(checkpoint, templates, tmp_path):
    output = render_repository(checkpoint, tmp_path / "out")
    before = files_in(output)
    (templates / "vae_decoder" / "config.pbtxt").write_text("${unknown}")
    with pytest.raises(RenderError):
        render_repository(checkpoint, output)
    assert files_in(output) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "templates"]


@pytest.mark.parametrize("text", ["costs $5", "ends with $", "${not closed", "${}"])
def test_a_dollar_that_starts_no_placeholder_is_an_error(text):
    with pytest.raises(RenderError, match=r"a.pbtxt: a \$ that starts no \$\{placeholder\}"):
        substitute(Path("a.pbtxt"), text, {"closed": "1"}, set())


def test_what_a_template_uses_is_noted():
    used = {"earlier"}
    text = substitute(Path("a.pbtxt"), "${a} and ${b} and ${a}", {"a": "1", "b": "2", "c": "3"}, used)
    assert text == "1 and 2 and 1"
    assert used == {"earlier", "a", "b"}


def test_the_command_line_has_an_option_for_every_setting_with_its_default(checkpoint, tmp_path, monkeypatch, capsys):
    output = tmp_path / "out"
    options = ["--checkpoint", str(checkpoint.folder), "--output", str(output), "--max-side", "1024"]
    monkeypatch.setattr("sys.argv", ["repository.py", *options, "--dit-max-batch-size", "5"])
    build.main()
    assert capsys.readouterr().out.strip() == str(output)
    assert parameters_of(output, "validator")["max_side"] == "1024"
    assert parameters_of(output, "validator")["min_side"] == str(Limits().min_side)
    assert parse_config(output, (output / "dit" / "config.pbtxt").read_text()).max_batch_size == 5


def test_the_command_line_says_what_is_wrong_and_fails(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["repository.py", "--checkpoint", str(tmp_path), "--output", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match=r"^error: .* is no diffusers checkpoint"):
        build.main()
    assert list(tmp_path.iterdir()) == []
