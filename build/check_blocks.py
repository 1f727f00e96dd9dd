"""Every block of a checkpoint run through the exported graph and compared with diffusers' block, one at a time.

It finds a graph that does not fit a checkpoint, and weights that are not finite, before GPU time is spent; it needs no
GPU, and memory for two blocks. Blocks that were checked are noted and skipped.

python build/check_blocks.py --checkpoint FOLDER --onnx onnx --precision bf16
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import onnx_ir
import onnxruntime
import torch
from diffusers.models.transformers.transformer_qwenimage import QwenImageTransformerBlock
from tqdm import tqdm

from build.command_line import add_precision_option, checkpoint_parser, opened_checkpoint
from build.emulation import widened
from build.export import check_exported, onnx_path
from build.staging import staged
from qwen_image.checkpoint import Checkpoint
from qwen_image.checkpoint.files import read_json
from qwen_image.dit.blocks import block_tensors
from qwen_image.dit.onnx_blocks import run_block
from qwen_image.dit.precision import Precision
from qwen_image.dit.weights import CheckpointWeights, Dimensions, Weights
from qwen_image.engines.fingerprint import file_digest, weights_fingerprint
from qwen_image.errors import CheckpointError, EngineError

# Relative error of a block against float32. Seen in the demo's trained blocks: 7e-7, 1e-2, 5e-2.
ALLOWED = {Precision.FP32: 1e-5, Precision.BF16: 4e-2, Precision.FP8: 2e-1}


def check_blocks(checkpoint: Checkpoint, onnx: Path, precision: Precision) -> list[float]:
    """Each block's relative error, ‖graph − diffusers‖ / ‖diffusers‖ over both streams, in the blocks' order.

    diffusers computes in float32 with the checkpoint's weights. EngineError names the first block that is further off
    than `ALLOWED`, or not finite.
    """
    weights = CheckpointWeights(checkpoint)
    path = onnx_path(onnx, "block", precision)
    check_exported(checkpoint, path)
    note = path.with_name(f"{path.stem}.checked.json")
    subject = {
        "onnx_sha256": file_digest(path),
        "weights_fingerprint": weights_fingerprint(checkpoint.folder / "transformer"),
    }
    errors = _noted(note, subject)
    session = open_graph(path, precision)
    for index in tqdm(
        range(len(errors), weights.dimensions.num_layers),
        desc="blocks",
        initial=len(errors),
        total=weights.dimensions.num_layers,
    ):
        error = block_error(session, weights, index, precision)
        if not error <= ALLOWED[precision]:  # also catches NaN
            raise EngineError(
                f"block {index} is {error:.2e} from diffusers, {ALLOWED[precision]:.0e} is allowed in {precision}: are "
                f"the weights in {checkpoint.folder / 'transformer'} whole, and all finite?"
            )
        errors.append(error)
        with staged(note) as staging:
            staging.write_text(json.dumps({**subject, "errors": errors}))
    return errors


def open_graph(path: Path, precision: Precision) -> Any:
    """The exported file in ONNX Runtime; with bfloat16 in it, each operator between casts (`emulation.py`)."""
    if precision is Precision.FP32:
        return onnxruntime.InferenceSession(path)
    with tempfile.TemporaryDirectory() as folder:
        onnx_ir.save(widened(onnx_ir.load(path)), f"{folder}/widened.onnx")
        return onnxruntime.InferenceSession(f"{folder}/widened.onnx")


def block_error(session: Any, weights: Weights, index: int, precision: Precision) -> float:
    inputs = example(weights.dimensions, index, precision)
    outputs = run_block(session, inputs, block_tensors(weights, index, precision))
    expected = reference(weights, index, torch.float32, inputs)
    off = math.hypot(*((outputs[name].float() - expected[name]).norm().item() for name in expected))
    return off / math.hypot(*(each.norm().item() for each in expected.values()))


def example(
    dimensions: Dimensions,
    seed: int,
    precision: Precision,
    *,
    rows: int = 2,
    image_tokens: int = 64,
    text_lengths: tuple[int, ...] = (24, 17),
) -> dict[str, torch.Tensor]:
    """Random inputs of a block, by name; the second row's text is padded, with zeros as the text encoder pads."""
    generator = torch.Generator().manual_seed(seed)
    text_tokens = max(text_lengths)
    mask = torch.arange(text_tokens)[None] < torch.tensor(text_lengths)[:rows, None]

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    angles = {"image": image_tokens, "text": text_tokens}
    rotary = {name: noise(tokens, dimensions.head_dim // 2) for name, tokens in angles.items()}
    return {
        "image": noise(rows, image_tokens, dimensions.dim).to(precision.dtype),
        "text": (noise(rows, text_tokens, dimensions.dim) * mask[..., None]).to(precision.dtype),
        "text_mask": mask,
        "temb": noise(rows, dimensions.dim).to(precision.dtype),
        **{f"{name}_rotary": torch.stack([each.cos(), each.sin()]) for name, each in rotary.items()},
        **(_reference_inputs(noise, dimensions, precision, rows, image_tokens) if dimensions.zero_cond_t else {}),
    }


def _reference_inputs(
    noise: Callable[..., torch.Tensor], dimensions: Dimensions, precision: Precision, rows: int, image_tokens: int
) -> dict[str, torch.Tensor]:
    """The last third of the image tokens are references'."""
    return {
        "reference_temb": noise(rows, dimensions.dim).to(precision.dtype),
        "is_reference": torch.arange(image_tokens) >= image_tokens - image_tokens // 3,
    }


@torch.inference_mode()
def reference(
    weights: Weights, index: int, dtype: torch.dtype, inputs: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """What diffusers' own block gives for the same inputs, computed in `dtype`."""
    with torch.device("meta"):
        size = weights.dimensions
        block = QwenImageTransformerBlock(size.dim, size.heads, size.head_dim, zero_cond_t=size.zero_cond_t)
    block.load_state_dict(weights.block(index, dtype), assign=True)
    rotary = (torch.complex(*inputs["image_rotary"].unbind(0)), torch.complex(*inputs["text_rotary"].unbind(0)))
    streams = (inputs[name].to(dtype) for name in ("image", "text"))
    temb, modulate_index = inputs["temb"].to(dtype), None
    if size.zero_cond_t:
        temb = torch.cat([temb, inputs["reference_temb"].to(dtype)])
        modulate_index = inputs["is_reference"].int().expand(inputs["image"].shape[0], -1)
    text, image = block.eval()(*streams, inputs["text_mask"], temb, rotary, modulate_index=modulate_index)
    return {"image": image.float(), "text": text.float()}


def _noted(note: Path, subject: dict[str, str]) -> list[float]:
    """The errors of blocks that were checked before, of the same weights and graph. A broken note says nothing."""
    with suppress(CheckpointError):
        contents = read_json(note)
        errors = contents.pop("errors", None)
        if contents == subject and isinstance(errors, list):
            return errors
    return []


def main() -> None:
    parser = checkpoint_parser("Compare every block with diffusers.")
    parser.add_argument("--onnx", type=Path, default=Path("onnx"), help="what build/export.py wrote")
    add_precision_option(parser)
    options = parser.parse_args()
    with opened_checkpoint(options) as checkpoint:
        errors = check_blocks(checkpoint, options.onnx, Precision(options.precision))
    print(f"{len(errors)} blocks, relative error {max(errors):.1e} at most")


if __name__ == "__main__":
    main()
