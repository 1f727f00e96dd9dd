"""Render a model repository for Triton: strict templates, a checked checkpoint, a new folder.

python build/repository.py --checkpoint FOLDER_OR_ID --output repository
python build/repository.py --checkpoint FOLDER_OR_ID --output repository --profile gpu --engines engines
"""

from __future__ import annotations

import argparse
import os
import shutil
import string
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from build.compiled import Compiled, find_compiled
from build.profile import PROFILES, CpuProfile, Profile
from qwen_image.checkpoint import Checkpoint, open_checkpoint, resolve_checkpoint
from qwen_image.errors import QwenImageError, RenderError
from qwen_image.params import Limits

TEMPLATES = Path(__file__).resolve().parents[1] / "model_repository"
RENDERED = (".pbtxt", ".json")
PLAN_MODELS = {"vae_decoder_plan"}  # on Triton's TensorRT backend, where the profile has it


def render_repository(
    checkpoint: Checkpoint,
    output: Path,
    *,
    profile: Profile | None = None,
    limits: Limits | None = None,
    engines: Path | None = None,
) -> Path:
    """Write the repository to `output`, which must not exist or be an earlier rendering, and return it.

    `engines` is where the profile's engines lie. RenderError: a placeholder without a value, a value without a
    placeholder, a config that Triton would refuse. EngineError: an engine that is missing, or is not for this.
    """
    profile, limits = profile or CpuProfile(), limits or Limits()
    compiled = find_compiled(checkpoint, profile, limits, engines)
    staging = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        write_templates(staging, template_values(checkpoint, profile, limits, compiled), profile)
        compiled.place(staging)
        replace_folder(staging, output)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return output


def templates_of(profile: Profile) -> list[Path]:
    """The files of the models that a profile serves."""
    left_out = PLAN_MODELS - {profile.vae_plan}
    files = (path for path in TEMPLATES.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(path for path in files if path.relative_to(TEMPLATES).parts[0] not in left_out)


def write_templates(folder: Path, values: Mapping[str, str], profile: Profile) -> None:
    """Every template with its placeholders filled, each configuration checked."""
    used: set[str] = set()
    for template in templates_of(profile):
        target = folder / template.relative_to(TEMPLATES)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = template.read_text(encoding="utf-8")
        if template.suffix in RENDERED:
            text = substitute(template, text, values, used)
        if template.suffix == ".pbtxt":
            parse_config(template, text)
            (target.parent / "1").mkdir(exist_ok=True)  # an ensemble's version folder is empty, but Triton wants it
        target.write_text(text, encoding="utf-8")
    unused = sorted(values.keys() - used)
    if unused:
        raise RenderError(f"no template uses the value{'s' if len(unused) > 1 else ''} {', '.join(unused)}")


def template_values(checkpoint: Checkpoint, profile: Profile, limits: Limits, compiled: Compiled) -> dict[str, str]:
    height, width = checkpoint.default_size
    min_image_tokens, max_image_tokens = limits.image_tokens(checkpoint.family)
    values: dict[str, Any] = {
        **asdict(profile),
        **asdict(limits),
        "engine_manifest": compiled.block or "",
        "vae_plan": profile.vae_plan,
        "min_image_tokens": min_image_tokens,
        "max_image_tokens": max_image_tokens,
        "checkpoint": checkpoint.folder.resolve(),
        "family": checkpoint.family.pipeline_class,
        "default_height": height,
        "default_width": width,
        "prompt_embeds_dim": checkpoint.prompt_embeds_dim,
        "token_channels": checkpoint.token_channels,
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


def replace_folder(staging: Path, output: Path) -> None:
    """Put the finished folder in place; an earlier rendering goes, anything else is in the way."""
    if output.resolve().is_relative_to(TEMPLATES):
        raise RenderError(f"{output} is where the templates are; name another folder")
    if output.exists():
        is_ours = output.is_dir() and (not any(output.iterdir()) or (output / "qwen_image" / "config.pbtxt").is_file())
        if not is_ours:
            raise RenderError(f"{output} exists and is no rendered repository; name another folder or remove it")
        shutil.rmtree(output)
    staging.rename(output)


def add_options(parser: argparse.ArgumentParser, settings: type) -> None:
    """One option a field, its default the field's own."""
    group = parser.add_argument_group(settings.__name__)
    for each in fields(settings):
        group.add_argument(f"--{each.name.replace('_', '-')}", type=type(each.default), default=each.default)


def picked(settings: type, options: argparse.Namespace) -> Any:
    return settings(**{each.name: getattr(options, each.name) for each in fields(settings)})


def main() -> None:
    options = _options()
    settings = PROFILES[options.profile]
    try:
        checkpoint = open_checkpoint(resolve_checkpoint(options.checkpoint, options.revision))
        print(
            render_repository(
                checkpoint,
                options.output,
                profile=picked(settings, options),
                limits=picked(Limits, options),
                engines=options.engines,
            )
        )
    except QwenImageError as error:
        raise SystemExit(f"error: {error}") from error


def _options() -> argparse.Namespace:
    """The profile is read first: it has the defaults of the other options."""
    chooser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    chooser.add_argument("--profile", choices=sorted(PROFILES), default="cpu", help="whose defaults are taken")
    parser = argparse.ArgumentParser(
        description="Render a model repository for Triton.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        parents=[chooser],
        allow_abbrev=False,
    )
    parser.add_argument("--checkpoint", required=True, help="a folder in the diffusers layout, or a Hugging Face id")
    parser.add_argument("--revision", help="of a Hugging Face id: a commit hash or a tag")
    parser.add_argument("--output", type=Path, default=Path("repository"))
    parser.add_argument("--engines", type=Path, help="what build/engines.py built; needed unless --engine is torch")
    add_options(parser, PROFILES[chooser.parse_known_args()[0].profile])
    add_options(parser, Limits)
    return parser.parse_args()


if __name__ == "__main__":
    main()
