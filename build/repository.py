"""Render a model repository for Triton: strict templates, a checked checkpoint, a new folder.

python build/repository.py --checkpoint FOLDER_OR_ID --output repository
python build/repository.py --checkpoint FOLDER_OR_ID --output repository --profile gpu --engines engines
"""

from __future__ import annotations

import argparse
import shutil
import string
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from build.command_line import ENGINES_HELP, checkpoint_parser, opened_checkpoint
from build.compiled import Compiled, checked, find_manifests
from build.contract_config import contract_values
from build.options import add_repository_options, chosen_profile, picked, profile_chooser
from build.server_info import server_info
from build.settings import PROFILES, Settings
from build.staging import staged
from qwen_image.checkpoint import Checkpoint
from qwen_image.checkpoint.checks import WEIGHTED
from qwen_image.checkpoint.weight_checks import check_weights
from qwen_image.errors import RenderError
from qwen_image.families import Family
from qwen_image.request.params import image_tokens
from qwen_image_contract import ENSEMBLES, Limits

TEMPLATES = Path(__file__).resolve().parents[1] / "model_repository"
RENDERED = (".pbtxt", ".json")
PLAN_MODELS = ("vae_decoder_plan", "vae_encoder_plan")  # on Triton's TensorRT backend, where the settings ask for it


def render_repository(
    checkpoint: Checkpoint,
    output: Path,
    *,
    settings: Settings | None = None,
    limits: Limits | None = None,
    engines: Sequence[Path] = (),
) -> Path:
    """Write the repository to `output`, which must not exist or be an earlier rendering, and return it.

    `engines` are the manifests of the engines that the settings ask for. RenderError: a placeholder without a value, a
    value without a placeholder, a config that Triton would refuse. EngineError: an engine that is not for this.
    CheckpointError: the weights are missing or not those of the configurations, and the settings want them.
    """
    settings, limits = settings or Settings(), limits or Limits()
    if settings.load_format.reads_files:
        check_weights(checkpoint, WEIGHTED)
    compiled = checked(checkpoint, settings, limits, engines)
    with staged(output) as staging:
        templates = templates_of(settings, checkpoint.family)
        write_templates(staging, template_values(checkpoint, settings, limits, compiled), templates)
        compiled.place(staging)
        make_way(output)
    return output


def templates_of(settings: Settings, family: Family) -> list[Path]:
    """The files of the models that serve a family."""
    others = (each.name for each in ENSEMBLES if each.task != family.task)
    left_out = {*others, *(() if settings.has_vae_plans else PLAN_MODELS)}
    files = (path for path in TEMPLATES.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(path for path in files if path.relative_to(TEMPLATES).parts[0] not in left_out)


def write_templates(folder: Path, values: Mapping[str, str], templates: Sequence[Path]) -> None:
    """Every template with its placeholders filled, each configuration checked."""
    used: set[str] = set()
    for template in templates:
        target = folder / template.relative_to(TEMPLATES)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = template.read_text(encoding="utf-8")
        if template.suffix in RENDERED:
            text = substitute(template, with_contract(template, text), values, used)
        if template.suffix == ".pbtxt":
            parse_config(template, text)
            (target.parent / "1").mkdir(exist_ok=True)  # an ensemble's version folder is empty, but Triton wants it
        target.write_text(text, encoding="utf-8")
    unused = sorted(values.keys() - used)
    if unused:
        raise RenderError(f"no template uses the value{'s' if len(unused) > 1 else ''} {', '.join(unused)}")


def with_contract(template: Path, text: str) -> str:
    """The template with what follows from the public contract in it. RenderError: it has no place for a part of it."""
    for name, value in contract_values(template.relative_to(TEMPLATES).parts[0]).items():
        if template.suffix == ".pbtxt" and f"${{{name}}}" not in text:
            raise RenderError(f"{template}: no placeholder ${{{name}}} for its part of the contract")
        text = text.replace(f"${{{name}}}", value)
    return text


def template_values(checkpoint: Checkpoint, settings: Settings, limits: Limits, compiled: Compiled) -> dict[str, str]:
    min_image_tokens, max_image_tokens = image_tokens(limits, checkpoint.family)
    values: dict[str, Any] = {
        **asdict(settings),
        **asdict(limits),
        "gpus": " gpus: [ 0 ]" if settings.kind == "KIND_GPU" else "",  # or Triton makes instances on every GPU it sees
        "engine_manifest": compiled.block or "",
        **{name: name if settings.has_vae_plans else "" for name in PLAN_MODELS},
        "min_image_tokens": min_image_tokens,
        "max_image_tokens": max_image_tokens,
        "checkpoint": checkpoint.folder.resolve(),
        "prompt_embeds_dim": checkpoint.prompt_embeds_dim,
        "token_channels": checkpoint.token_channels,
        "latent_channels": checkpoint.family.latent_channels,
        "server_info": server_info(checkpoint, settings, limits),
    }
    return {name: str(value) for name, value in values.items()}


def substitute(template: Path, text: str, values: Mapping[str, str], used: set[str]) -> str:
    """Fill the ${placeholders}; RenderError for one that is unknown or malformed."""
    found = string.Template(text)
    if not found.is_valid():
        raise RenderError(f"{template}: a $ that starts no ${{placeholder}}")
    names = set(found.get_identifiers())
    unknown = sorted(names - values.keys())
    if unknown:
        raise RenderError(f"{template}: no value for {', '.join(f'${{{name}}}' for name in unknown)}")
    used |= names
    return found.substitute(values)


def parse_config(template: Path, text: str) -> Any:
    """The config as Triton's own message. RenderError with the line that does not parse."""
    try:
        return text_format.Parse(text, model_config_pb2.ModelConfig())
    except text_format.ParseError as error:
        raise RenderError(f"{template}: not a Triton model configuration: {error}") from error


def make_way(output: Path) -> None:
    """An earlier rendering goes; RenderError if anything else is in the way."""
    if output.resolve().is_relative_to(TEMPLATES):
        raise RenderError(f"{output} is where the templates are; name another folder")
    if output.exists():
        is_ours = output.is_dir() and (not any(output.iterdir()) or (output / "sampler" / "config.pbtxt").is_file())
        if not is_ours:
            raise RenderError(f"{output} exists and is no rendered repository; name another folder or remove it")
        shutil.rmtree(output)


def main() -> None:
    options = _options()
    with opened_checkpoint(options) as checkpoint:
        settings = picked(PROFILES[options.profile], options)
        engines = () if options.engines is None else find_manifests(options.engines, settings)
        limits = picked(Limits, options)
        print(render_repository(checkpoint, options.output, settings=settings, limits=limits, engines=engines))


def _options() -> argparse.Namespace:
    chooser = profile_chooser()
    parser = checkpoint_parser("Render a model repository for Triton.", parents=[chooser])
    parser.add_argument("--output", type=Path, default=Path("repository"), help="the folder to write")
    parser.add_argument("--engines", type=Path, help=ENGINES_HELP)
    add_repository_options(parser, chosen_profile(chooser))
    return parser.parse_args()


if __name__ == "__main__":
    main()
