"""Every rendered config.pbtxt agrees with the other ones and with the code's tensor names."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from build.repository import render_repository
from build.settings import Settings
from qwen_image.checkpoint import open_checkpoint
from qwen_image.families import QWEN_IMAGE
from qwen_image.request.params import GenerationParams
from qwen_image_contract import Limits
from tests.unit.source import MODELS, SERVING, attributes, calls, constants, function, keys_of, settings_read

SAMPLERS = ("sampler", "sampler_stream")
STREAMED = ("preview_every", "num_previews")  # inputs that only streams have
BEHIND_ENSEMBLES = (*SAMPLERS, "text_encoder", "dit", "vae_decoder", "vae_encoder")
PYTHON_MODELS = (*BEHIND_ENSEMBLES, "validator", "qwen_image_cancel")

PUBLIC_INPUTS = {
    "prompt": ("TYPE_STRING", [1], False),
    "negative_prompt": ("TYPE_STRING", [1], True),
    "height": ("TYPE_INT32", [1], True),
    "width": ("TYPE_INT32", [1], True),
    "num_inference_steps": ("TYPE_INT32", [1], True),
    "true_cfg_scale": ("TYPE_FP32", [1], True),
    "cfg_start": ("TYPE_FP32", [1], True),
    "cfg_end": ("TYPE_FP32", [1], True),
    "seed": ("TYPE_INT64", [1], True),
    "sigmas": ("TYPE_FP32", [-1], True),
}
PICTURE_INPUTS = {
    "qwen_image": {
        "input_image": ("TYPE_STRING", [-1], True),
        "mask_image": ("TYPE_STRING", [1], True),
        "strength": ("TYPE_FP32", [1], True),
    },
    "qwen_image_edit": {"input_image": ("TYPE_STRING", [-1], False)},
}
PUBLIC_OUTPUTS = {
    "image": ("TYPE_UINT8", [-1, -1, 3]),
    "latents": ("TYPE_FP32", [16, 1, -1, -1]),
    "used_seed": ("TYPE_INT64", [1]),
    "used_num_inference_steps": ("TYPE_INT32", [1]),
    "used_true_cfg_scale": ("TYPE_FP32", [1]),
    "used_width": ("TYPE_INT32", [1]),
    "used_height": ("TYPE_INT32", [1]),
}


@pytest.fixture(scope="session", params=["qwen_image", "qwen_image_edit"])
def family(request) -> str:
    """The ensemble that a repository of this kind of checkpoint has; its stream's name ends in _stream."""
    return request.param


@pytest.fixture(scope="session")
def rendered(family, repository, tiny_edit_plus_checkpoint, tmp_path_factory) -> Path:
    if family == "qwen_image":
        return repository
    return render_repository(open_checkpoint(tiny_edit_plus_checkpoint), tmp_path_factory.mktemp("edit") / "repository")


@pytest.fixture(scope="session")
def configs(rendered: Path) -> dict[str, Any]:
    """Triton's own message of each model, by the folder's name."""
    return {
        path.parent.name: text_format.Parse(path.read_text(), model_config_pb2.ModelConfig())
        for path in rendered.glob("*/config.pbtxt")
    }


@pytest.fixture(params=["", "_stream"], ids=["unary", "stream"])
def ensemble(family, request) -> str:
    return family + request.param


def type_of(tensor: Any) -> str:
    return model_config_pb2.DataType.Name(tensor.data_type)


def by_name(tensors: Any) -> dict[str, Any]:
    found = {tensor.name: tensor for tensor in tensors}
    assert len(found) == len(tensors)
    return found


def test_the_repository_holds_these_models_each_under_its_own_name(configs, family):
    assert configs.keys() == {family, f"{family}_stream", *PYTHON_MODELS}
    assert all(config.name == folder for folder, config in configs.items())


@pytest.mark.parametrize("model", PYTHON_MODELS)
def test_a_python_model_has_its_code_and_says_where_it_runs(configs, rendered, model):
    assert configs[model].backend == "python"
    assert (rendered / model / "1" / "model.py").is_file()
    instances = Settings().validator_instances if model == "validator" else 1
    assert [group.count for group in configs[model].instance_group] == [instances]


def test_tensor_names_are_lower_snake_and_words(configs):
    for config in configs.values():
        for tensor in (*config.input, *config.output):
            assert tensor.name.isidentifier()
            assert tensor.name == tensor.name.lower()
            assert not re.match(r"(input|output)(_?\d|$)", tensor.name)


def inputs_of(config: Any) -> dict[str, Any]:
    return {
        tensor.name: (type_of(tensor), list(tensor.dims), tensor.optional) for tensor in by_name(config.input).values()
    }


def test_the_public_inputs_are_the_parameters_of_an_image_and_its_pictures(configs, family, ensemble):
    found = inputs_of(configs[ensemble])
    if ensemble.endswith("_stream"):
        for name in STREAMED:
            assert found.pop(name) == ("TYPE_INT32", [1], True)
    assert found == PUBLIC_INPUTS | PICTURE_INPUTS[family]
    parameters = {each.name for each in fields(GenerationParams)} - {"strength", "reference_pixels"}
    assert PUBLIC_INPUTS.keys() == parameters


def test_the_validator_takes_the_public_inputs_of_every_family(configs):
    pictures = {name: (*each[:2], True) for inputs in PICTURE_INPUTS.values() for name, each in inputs.items()}
    streamed = dict.fromkeys(STREAMED, ("TYPE_INT32", [1], True))
    assert inputs_of(configs["validator"]) == PUBLIC_INPUTS | pictures | streamed


def test_the_public_outputs_are_the_documented_ones(configs, ensemble):
    more = {"step": ("TYPE_INT32", [1])} if ensemble.endswith("_stream") else {}
    more |= {"mask": ("TYPE_UINT8", [-1, -1])} if ensemble == "qwen_image" else {}
    outputs = by_name(configs[ensemble].output)
    assert {name: (type_of(tensor), list(tensor.dims)) for name, tensor in outputs.items()} == PUBLIC_OUTPUTS | more


def test_no_bfloat16_crosses_the_public_boundary(configs, family):
    for model in (family, f"{family}_stream", "qwen_image_cancel"):
        assert "TYPE_BF16" not in map(type_of, (*configs[model].input, *configs[model].output))


def test_every_model_behind_an_ensemble_takes_a_grant_and_no_ensemble_takes_or_gives_one(configs, ensemble):
    for model in BEHIND_ENSEMBLES:
        assert inputs_of(configs[model])["grant"] == ("TYPE_STRING", [1], True)
    for step in configs[ensemble].ensemble_scheduling.step[1:]:
        assert step.input_map["grant"] == "grant"
    assert "grant" not in by_name([*configs[ensemble].input, *configs[ensemble].output])


def test_only_the_stream_is_decoupled(configs):
    decoupled = {name for name, config in configs.items() if config.model_transaction_policy.decoupled}
    assert decoupled == {"sampler_stream"}


def test_every_mapping_joins_tensors_that_exist_and_are_alike(configs, ensemble):
    known = {tensor.name: (type_of(tensor), list(tensor.dims)) for tensor in configs[ensemble].input}
    for step in configs[ensemble].ensemble_scheduling.step:
        model = configs[step.model_name]
        inputs, outputs = by_name(model.input), by_name(model.output)
        for name, tensor in step.input_map.items():
            assert (type_of(inputs[name]), list(inputs[name].dims)) == known[tensor], (step.model_name, name)
        for name, tensor in step.output_map.items():
            assert tensor not in known, (step.model_name, name)
            known[tensor] = type_of(outputs[name]), list(outputs[name].dims)
    for output in configs[ensemble].output:
        assert (type_of(output), list(output.dims)) == known[output.name]


def test_every_step_gets_all_it_needs_and_may_miss_what_the_caller_may_leave_out(configs, ensemble):
    left_out = {tensor.name for tensor in configs[ensemble].input if tensor.optional}
    for step in configs[ensemble].ensemble_scheduling.step:
        inputs = by_name(configs[step.model_name].input)
        needed = {name for name, tensor in inputs.items() if not tensor.optional}
        assert needed <= step.input_map.keys() <= inputs.keys(), step.model_name
        for name, tensor in step.input_map.items():
            assert inputs[name].optional or tensor not in left_out, (step.model_name, name)


def test_every_input_of_an_ensemble_goes_somewhere_and_nothing_is_made_for_nobody(configs, ensemble):
    steps = configs[ensemble].ensemble_scheduling.step
    used = {tensor for step in steps for tensor in step.input_map.values()}
    made = {tensor for step in steps for tensor in step.output_map.values()}
    wanted = {tensor.name for tensor in configs[ensemble].output}
    assert {tensor.name for tensor in configs[ensemble].input} <= used
    assert made <= used | wanted


def test_what_the_vae_reads_is_not_what_the_caller_gets(configs, ensemble):
    """One tensor in both roles would deadlock a request for a part of the outputs."""
    steps = configs[ensemble].ensemble_scheduling.step
    between = {tensor for step in steps for tensor in step.input_map.values()}
    assert not between & {tensor.name for tensor in configs[ensemble].output}


def test_no_step_takes_fewer_rows_than_the_ensemble(configs, ensemble):
    for step in configs[ensemble].ensemble_scheduling.step:
        assert configs[step.model_name].max_batch_size >= configs[ensemble].max_batch_size


def test_both_ensembles_are_the_same_up_to_the_sampler(configs, family):
    plain, stream = (configs[f"{family}{suffix}"].ensemble_scheduling.step for suffix in ("", "_stream"))
    assert [step.model_name for step in plain] == ["validator", "text_encoder", "sampler", "vae_decoder"]
    assert [step.model_name for step in stream] == ["validator", "text_encoder", "sampler_stream"]
    only_streamed = {*STREAMED, "kept_image"}
    for one, other in zip(plain, stream, strict=False):
        assert dict(one.input_map) == {key: each for key, each in other.input_map.items() if key not in only_streamed}
    for one, other in zip(plain[:2], stream[:2], strict=True):
        assert {key: each for key, each in one.output_map.items() if key != "mask"} == dict(other.output_map)


def test_the_samplers_outputs_are_the_names_in_its_code(configs):
    names = keys_of(function(SERVING / "sampler_model.py", "_outputs"), "outputs")
    assert by_name(configs["sampler_stream"].output).keys() == names - {"decoder_latents"} | {"image"}
    assert by_name(configs["sampler"].output).keys() == names - {"step"}


@pytest.mark.parametrize("model", SAMPLERS)
def test_the_samplers_inputs_are_the_names_in_its_code(configs, model):
    inputs = by_name(configs[model].input)
    functions = ("read_job", "_previews", "_decoder_inputs")
    read = set().union(*(constants(function(SERVING / "job.py", name)) for name in functions))
    read |= attributes(SERVING / "job.py", "Image")  # the numbers of a row, each read by its name
    assert {name for name in inputs if not name.endswith("_mask")} - {"grant"} <= read
    for name in ("prompt_embeds", "negative_prompt_embeds"):
        assert f"{name}_mask" in inputs


def test_both_samplers_take_the_same(configs):
    plain, stream = (configs[model] for model in SAMPLERS)
    assert list(plain.input) == [each for each in stream.input if each.name not in (*STREAMED, "kept_image")]
    assert plain.max_batch_size == stream.max_batch_size


def test_what_the_sampler_sends_to_dit_is_what_dit_takes(configs):
    sent = keys_of(function(SERVING / "dit_client.py", "_inputs"), "inputs")
    pictures = keys_of(function(SERVING / "image_tokens.py", "inputs"), "named")
    assert by_name(configs["dit"].input).keys() == sent | pictures | {"grant"}


def test_dit_reads_all_it_takes(configs):
    code = ast.parse((SERVING / "dit_model.py").read_text())
    assert by_name(configs["dit"].input).keys() - {"grant"} <= constants(code)


def test_only_what_may_travel_later_or_is_drawn_is_optional_in_dit(configs):
    optional = {tensor.name for tensor in configs["dit"].input if tensor.optional}
    pictures = keys_of(function(SERVING / "image_tokens.py", "inputs"), "named")
    assert optional == {"grant", "latents", "prompt_embeds", "negative_prompt_embeds"} | pictures


def test_whatever_may_differ_between_the_images_of_a_batch_is_ragged_in_dit(configs):
    inputs = by_name(configs["dit"].input)
    assert {name for name, tensor in inputs.items() if tensor.allow_ragged_batch} == {
        name for name, tensor in inputs.items() if -1 in tensor.dims
    }


def test_widths_are_the_checkpoints(configs, checkpoint):
    assert by_name(configs["dit"].input)["latents"].dims[1] == checkpoint.token_channels
    for model, tensors in (("text_encoder", "output"), ("sampler", "input"), ("dit", "input")):
        found = by_name(getattr(configs[model], tensors))
        assert found["prompt_embeds"].dims[1] == checkpoint.prompt_embeds_dim
        assert found["negative_prompt_embeds"].dims[1] == checkpoint.prompt_embeds_dim
    assert by_name(configs["vae_decoder"].input)["latents"].dims[0] == QWEN_IMAGE.latent_channels


def model_source(model: str) -> Path:
    """The file of the class that a model.py names."""
    (named,) = re.findall(r"from qwen_image\.serving\.(\w+) import", (MODELS / model / "1" / "model.py").read_text())
    return SERVING / f"{named}.py"


@pytest.mark.parametrize("model", PYTHON_MODELS)
def test_every_parameter_that_a_model_reads_is_in_its_config_and_no_other(configs, model):
    read = settings_read(model_source(model))
    if model.startswith("vae_"):
        read |= settings_read(SERVING / "vae_model.py")
    if model == "sampler_stream":
        read -= {"tokens_per_call", "tokens_per_call_alone"}  # it answers after every step
    if model == "validator":
        read |= {each.name for each in fields(Limits)}
    assert configs[model].parameters.keys() == read


METRIC_SOURCES = [
    SERVING / "dit_client.py",
    *sorted(SERVING.glob("*_model.py")),
]


def metric_families() -> set[str]:
    return keys_of(ast.parse((SERVING / "metrics.py").read_text()), "FAMILIES")


def metrics_named(path: Path, call: str) -> set[str]:
    """Names of ours in the arguments of calls of this name."""
    arguments = (argument for each in calls(path, call) for argument in each.args)
    return {name for argument in arguments for name in constants(argument) if name.startswith("qwen_image_")}


@pytest.mark.parametrize("path", METRIC_SOURCES, ids=lambda path: str(path.relative_to(path.parents[2])))
def test_every_metric_that_is_named_has_its_family(path):
    assert metrics_named(path, "Metrics") | metrics_named(path, "add") <= metric_families()


def test_every_metric_that_a_process_adds_to_is_one_it_has_declared_and_the_other_way_round():
    sampler = [SERVING / "sampler_model.py", SERVING / "dit_client.py"]
    others = [path for path in SERVING.glob("*_model.py") if path not in sampler]
    for paths in (sampler, *([path] for path in others)):
        declared, added = (
            {name for path in paths for name in metrics_named(path, call)} for call in ("Metrics", "add")
        )
        assert declared == added, paths


def test_every_metric_family_is_used_by_some_model():
    assert {name for path in METRIC_SOURCES for name in metrics_named(path, "Metrics")} == metric_families()
