"""Whether a component's files hold the tensors that its config.json asks for: by headers alone, before any is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from qwen_image.checkpoint.checkpoint import Checkpoint
from qwen_image.checkpoint.expected_tensors import expected_shapes
from qwen_image.checkpoint.stored_tensors import StoredTensor, stored_tensors
from qwen_image.errors import CheckpointError

DTYPES = ("BF16", "F16", "F32", "F64", "F8_E4M3", "F8_E5M2")  # FP8 as it is cast, without scales
WANTED = "serve the files of the diffusers layout in BF16, F16 or F32"
LISTED = 3  # names in a message
BLOCK = re.compile(r"(.*?(?:blocks|layers))\.(\d+)\.")
UNUSED = re.compile(r"lm_head\.|.*rotary(_pos)?_emb\.inv_freq$")  # of text encoders; older ones hold the latter
FORMER_NAMES = ((r"visual\.", "model.visual."), (r"model\.(?!visual\.|language_model\.)", "model.language_model."))
LAYOUTS = {
    r"scale_weight|weight_scale|scaled_fp8|input_scale|scale_input|comfy_quant": "a scaled FP8 file",
    r"\.absmax$|quant_map|quant_state|\.SCB$": "a file quantised by bitsandbytes",
    r"\.(qweight|qzeros|scales|wscales|g_idx)$": "a file quantised by GPTQ, AWQ or SVDQuant",
    r"lora_|\.lokr_|\.hada_": "a LoRA, not a whole model",
    r"^(model\.diffusion_model|first_stage_model|cond_stage_model|text_encoders)\.": "a file in ComfyUI's layout",
    r"^(encoder|decoder)\.(downsamples|upsamples|middle|conv1|head)\.|^conv[12]\.": "a VAE in Wan's original layout",
}


def check_weights(checkpoint: Checkpoint, components: Iterable[str]) -> None:
    """CheckpointError unless the files of every component are whole and hold what its configuration asks for."""
    for component in components:
        checked_tensors(checkpoint, component)


def checked_tensors(checkpoint: Checkpoint, component: str) -> dict[str, StoredTensor]:
    """What the component is loaded from, by the names that its model has. CheckpointError says what does not fit."""
    folder, config = checkpoint.folder / component, checkpoint.config(component)
    if quantised := config.get("quantization_config"):
        method = quantised.get("quant_method") if isinstance(quantised, dict) else quantised
        raise CheckpointError(f"{folder}/config.json: quantization_config ({method}) is not read: {WANTED}")
    try:
        wanted = expected_shapes(component, config)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        lacks = f"has no {error}" if isinstance(error, KeyError) else f"has a value that does not fit ({error})"
        raise CheckpointError(f"{folder}/config.json {lacks}") from error
    found = _as_named_now(stored_tensors(folder)) if component == "text_encoder" else stored_tensors(folder)
    _check_dtypes(found)
    _check_names(folder, found, wanted)
    _check_shapes(folder, found, wanted)
    return found


def _as_named_now(stored: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Under the names of transformers 5, as both transformers and vLLM read the older ones."""
    found: dict[str, StoredTensor] = {}
    for name, tensor in stored.items():
        if UNUSED.match(name):
            continue
        now = next((new + name[m.end() :] for old, new in FORMER_NAMES if (m := re.match(old, name))), name)
        if now in found:
            raise CheckpointError(f"{tensor.path} has {name} twice, under an older name too")
        found[now] = tensor
    return found


def _check_dtypes(found: Mapping[str, StoredTensor]) -> None:
    for name, tensor in found.items():
        layout = next((layout for pattern, layout in LAYOUTS.items() if re.search(pattern, name)), None)
        if layout is not None:
            raise CheckpointError(f"{tensor.path} is {layout} (it has {name}), which is not read: {WANTED}")
        if tensor.dtype not in DTYPES:
            raise CheckpointError(f"{tensor.path}: {name} is {tensor.dtype}, which is not read: {WANTED}")


def _check_names(folder: Path, found: Mapping[str, StoredTensor], wanted: Mapping[str, tuple[int, ...]]) -> None:
    missing, surplus = wanted.keys() - found.keys(), found.keys() - wanted.keys()
    if not missing and not surplus:
        return
    have, want = _blocks(found), _blocks(wanted)
    uneven = [kind for kind in have | want if have.get(kind) != want.get(kind)]
    differences = [
        *(f"{have.get(kind, 0)} {kind}, wanted are {want.get(kind, 0)}" for kind in uneven),
        *([f"without {_listed(missing)}"] if missing else []),
        *([f"with {_listed(surplus)}, which nothing reads"] if surplus else []),
    ]
    raise CheckpointError(
        f"{folder} holds other tensors than its config.json asks for: {'; '.join(differences)}. "
        "Is the checkpoint whole, and of one revision?"
    )


def _check_shapes(folder: Path, found: Mapping[str, StoredTensor], wanted: Mapping[str, tuple[int, ...]]) -> None:
    other = sorted(name for name, shape in wanted.items() if found[name].shape != shape)
    if other:
        first = other[0]
        raise CheckpointError(
            f"{found[first].path} does not fit {folder}/config.json: {first} is {list(found[first].shape)}, wanted is "
            f"{list(wanted[first])} ({len(other)} differ). Are both of one revision?"
        )


def _blocks(names: Iterable[str]) -> dict[str, int]:
    """How many of each kind of block."""
    seen = {(match[1], match[2]) for name in names if (match := BLOCK.match(name))}
    kinds = sorted({kind for kind, _ in seen})
    return {kind: sum(each == kind for each, _ in seen) for kind in kinds}


def _listed(names: Iterable[str]) -> str:
    names = sorted(names)
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more} more" if more > 0 else "")
