"""What a checkpoint must have to be served. CheckpointError says what is missing, of another class or does not fit."""

from __future__ import annotations

from qwen_image.checkpoint.checkpoint import AREA_KEYS, DEFAULT_SIZE_KEY, Checkpoint
from qwen_image.checkpoint.files import has_weights_name, refuse_pointer
from qwen_image.errors import CheckpointError
from qwen_image.families import Family

WEIGHTED = ("transformer", "vae", "text_encoder")
COMPONENTS = (*WEIGHTED, "tokenizer", "scheduler")
VOCABULARIES = ("tokenizer.json", "vocab.json")
PREPROCESSORS = ("preprocessor_config.json", "processor_config.json")
UNKNOWN_FLAGS = ("guidance_embeds", "use_additional_t_cond", "use_layer3d_rope")  # of a transformer's configuration


def components(family: Family) -> tuple[str, ...]:
    """The folders that a family's checkpoint has."""
    return (*COMPONENTS, "processor") if family.processor_class else COMPONENTS


def check_checkpoint(checkpoint: Checkpoint) -> None:
    """Raise the first error found: of a component, of what it computes, of how the components fit together."""
    for component in components(checkpoint.family):
        _check_component(checkpoint, component)
        _check_files(checkpoint, component)
    _check_flags(checkpoint)
    _check_shapes(checkpoint)
    _check_default_size(checkpoint)
    _check_areas(checkpoint)


def _check_component(checkpoint: Checkpoint, component: str) -> None:
    contents = checkpoint.index
    folder = checkpoint.folder / component
    if component not in contents or not folder.is_dir():
        raise CheckpointError(f"{checkpoint.folder} has no {component}: the folder and its line in model_index.json")
    expected = getattr(checkpoint.family, f"{component}_class", None)
    entry = contents[component]
    if not (isinstance(entry, list) and len(entry) == 2):
        raise CheckpointError(
            f"{checkpoint.folder}/model_index.json: {component}={entry!r} must be [library, class name]"
        )
    found = entry[1]
    if expected is not None and found != expected:
        raise CheckpointError(f"{component} is a {found}; a {checkpoint.family.pipeline_class} needs a {expected}")


def _check_files(checkpoint: Checkpoint, component: str) -> None:
    folder = checkpoint.folder / component
    for file in folder.iterdir():
        if file.is_file() and not has_weights_name(file):
            refuse_pointer(file)
    if component == "processor" and not any((folder / name).is_file() for name in PREPROCESSORS):
        raise CheckpointError(f"{folder} has neither {' nor '.join(PREPROCESSORS)}")
    if component in ("tokenizer", "processor"):
        if not any((folder / name).is_file() for name in VOCABULARIES):
            raise CheckpointError(f"{folder} has neither {' nor '.join(VOCABULARIES)}")
        return
    checkpoint.config(component)


def _check_flags(checkpoint: Checkpoint) -> None:
    """A transformer that computes something else than what is built here would paint, but wrongly."""
    for flag in UNKNOWN_FLAGS:
        if checkpoint.config("transformer").get(flag):
            raise CheckpointError(f"{checkpoint.folder}/transformer/config.json: {flag} is set; it is not served")


def _check_shapes(checkpoint: Checkpoint) -> None:
    """The numbers by which one component feeds the next."""
    transformer, vae = checkpoint.config("transformer"), checkpoint.config("vae")
    text = checkpoint.config("text_encoder")
    hidden_size = text.get("text_config", text).get("hidden_size")
    latent_channels = vae.get("z_dim")
    patch_values = checkpoint.family.patch_size**2
    _check_equal(
        "text_encoder hidden_size",
        hidden_size,
        "transformer joint_attention_dim",
        transformer.get("joint_attention_dim"),
    )
    _check_equal(
        "transformer in_channels",
        transformer.get("in_channels"),
        "4 x vae z_dim",
        patch_values * (latent_channels or 0),
    )
    _check_equal("transformer out_channels", transformer.get("out_channels"), "vae z_dim", latent_channels)
    for name in ("latents_mean", "latents_std"):
        _check_equal(f"length of vae {name}", len(vae.get(name) or ()), "vae z_dim", latent_channels)


def _check_default_size(checkpoint: Checkpoint) -> None:
    size = checkpoint.index.get(DEFAULT_SIZE_KEY, list(checkpoint.family.default_size))
    multiple = checkpoint.family.size_multiple
    is_size = isinstance(size, list) and len(size) == 2 and all(isinstance(side, int) and side > 0 for side in size)
    if not is_size or any(side % multiple for side in size):
        raise CheckpointError(
            f"{checkpoint.folder}/model_index.json: {DEFAULT_SIZE_KEY}={size!r} must be [height, width] in pixels, "
            f"multiples of {multiple}"
        )


def _check_areas(checkpoint: Checkpoint) -> None:
    family, index = checkpoint.family, checkpoint.folder / "model_index.json"
    for key in (key for key in AREA_KEYS if key in checkpoint.index):
        if family.edit is None:
            raise CheckpointError(f"{index}: {key} is for families that edit; a {family.pipeline_class} does not")
        area, smallest = checkpoint.index[key], (2 * family.edit.side_multiple) ** 2
        if type(area) is not int or area < smallest:  # less, and a long picture's shorter side rounds to nothing
            raise CheckpointError(f"{index}: {key}={area!r} must be a whole number of pixels, {smallest} or more")


def _check_equal(left_name: str, left: object, right_name: str, right: object) -> None:
    if left != right:
        raise CheckpointError(f"the components don't fit together: {left_name} is {left}, {right_name} is {right}")
