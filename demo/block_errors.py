"""Measure what lower precision costs the transformer's blocks: the demo's trained ones, and full-size random ones.

python -m demo.block_errors
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from build.check_blocks import example
from build.figures import CONFIG
from qwen_image.checkpoint import open_checkpoint
from qwen_image.dit.blocks import block_tensors, empty_block
from qwen_image.dit.dummy import DummyWeights
from qwen_image.dit.precision import Precision
from qwen_image.dit.weights import CheckpointWeights, Weights

CHECKPOINT = Path(__file__).parent / "checkpoint"
FULL_SIZE_BLOCKS = 5
STREAMS = ("image", "text")

Tensors = Mapping[str, torch.Tensor]


class Bfloat16Weights:
    """Those of `weights` as a checkpoint stores them, so that float32 computes with the same values."""

    def __init__(self, weights: Weights) -> None:
        self.config = weights.config
        self.dimensions = weights.dimensions
        self._weights = weights

    def block(self, index: int, dtype: torch.dtype, device: str | torch.device = "cpu") -> dict[str, torch.Tensor]:
        tensors = self._weights.block(index, torch.bfloat16, device)
        return {name: tensor.to(dtype) for name, tensor in tensors.items()}

    def outside_blocks(self, dtype: torch.dtype, device: str | torch.device = "cpu") -> dict[str, torch.Tensor]:
        tensors = self._weights.outside_blocks(torch.bfloat16, device)
        return {name: tensor.to(dtype) for name, tensor in tensors.items()}


@dataclass(frozen=True, slots=True)
class Outputs:
    """Both streams after a block, by precision."""

    alone: dict[Precision, Tensors]  # of inputs of its own
    in_sequence: dict[Precision, Tensors]  # of what the block before gave in the same precision


def outputs_of_blocks(weights: Weights, blocks: int, *, image_tokens: int, text_tokens: int) -> list[Outputs]:
    """Every block in every precision, one at a time; all start from the same bfloat16 inputs."""
    results: list[Outputs] = []
    first = _inputs(weights, 0, image_tokens, text_tokens)
    for index in range(blocks):
        own = _inputs(weights, index, image_tokens, text_tokens)
        alone, in_sequence = {}, {}
        for precision in Precision:
            before = first if index == 0 else {**first, **results[-1].in_sequence[precision]}
            alone[precision], in_sequence[precision] = _run(weights, index, precision, [own, before])
        results.append(Outputs(alone, in_sequence))
    return results


def _inputs(weights: Weights, seed: int, image_tokens: int, text_tokens: int) -> dict[str, torch.Tensor]:
    return example(
        weights.dimensions, seed, Precision.BF16, rows=1, image_tokens=image_tokens, text_lengths=(text_tokens,)
    )


@torch.inference_mode()
def _run(weights: Weights, index: int, precision: Precision, inputs: list[dict[str, torch.Tensor]]) -> list[Tensors]:
    block = empty_block(weights.dimensions, precision)
    block.load_state_dict(block_tensors(weights, index, precision), assign=True)
    in_dtype = [given | {name: given[name].to(precision.dtype) for name in (*STREAMS, "temb")} for given in inputs]
    return [dict(zip(STREAMS, block.eval()(**given), strict=True)) for given in in_dtype]


def apart(found: Tensors, expected: Tensors, streams: tuple[str, ...] = STREAMS) -> float:
    """‖found − expected‖ / ‖expected‖ over these streams."""
    off = math.hypot(*((found[name].float() - expected[name].float()).norm().item() for name in streams))
    return off / math.hypot(*(expected[name].float().norm().item() for name in streams))


def table(title: str, results: list[Outputs]) -> str:
    rows = {"one block, the largest of": [each.alone for each in results]}
    rows |= {f"after {count} in sequence": [results[count - 1].in_sequence] for count in (3, len(results))}
    lines = [f"\n| {title} | bf16 beside fp32 | fp8 beside fp32 | fp8 beside bf16 |", "| --- | --- | --- | --- |"]
    for name, outputs in rows.items():
        for streams in (STREAMS, ("image",)):
            cells = [
                f"{max(apart(each[found], each[expected], streams) for each in outputs):.1e}"
                for found, expected in (
                    (Precision.BF16, Precision.FP32),
                    (Precision.FP8, Precision.FP32),
                    (Precision.FP8, Precision.BF16),
                )
            ]
            count = f" {len(outputs)}" if len(outputs) > 1 else ""
            lines.append(f"| {name}{count}, {' and '.join(streams)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    demo = CheckpointWeights(open_checkpoint(CHECKPOINT))
    print(table("demo", outputs_of_blocks(demo, demo.dimensions.num_layers, image_tokens=64, text_tokens=24)))
    full = Bfloat16Weights(DummyWeights(CONFIG))
    print(table("full size", outputs_of_blocks(full, FULL_SIZE_BLOCKS, image_tokens=256, text_tokens=64)))


if __name__ == "__main__":
    main()
