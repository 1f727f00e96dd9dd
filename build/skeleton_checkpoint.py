"""Write Qwen-Image's configurations at their published size, without weights: what `load_format=dummy` is served from.

A server over it takes the memory and the time that the real one takes; its pictures are noise.

python -m build.skeleton_checkpoint FOLDER
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diffusers
import torch
from diffusers import AutoencoderKLQwenImage, QwenImageTransformer2DModel
from transformers import Qwen2_5_VLConfig, Qwen2Tokenizer

from build.tiny_checkpoint import (
    qwen_scheduler,
    text_token_ids,
    tiny_text_encoder_config,
    tiny_transformer,
    tiny_vae,
    train_tokenizer,
    vision_token_ids,
)
from qwen_image.families import QWEN_IMAGE


@dataclass(frozen=True, slots=True)
class Parts:
    """What makes each component, and (height, width) of an image whose request names none."""

    transformer: Callable[[], Any]  # diffusers' classes, whose types don't show that they save their configurations
    vae: Callable[[], Any]
    text_encoder: Callable[[Qwen2Tokenizer], Qwen2_5_VLConfig]
    default_size: tuple[int, int]


def published_text_encoder_config(tokenizer: Qwen2Tokenizer) -> Qwen2_5_VLConfig:
    """Qwen2.5-VL 7B's, its special tokens numbered as in `tokenizer`."""
    return Qwen2_5_VLConfig(
        dtype="bfloat16",
        tie_word_embeddings=False,
        text_config={
            "vocab_size": 152064,
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "max_position_embeddings": 128000,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0, "mrope_section": [16, 24, 24]},
            **text_token_ids(tokenizer),
        },
        vision_config={
            "depth": 32,
            "hidden_size": 1280,
            "intermediate_size": 3420,
            "num_heads": 16,
            "out_hidden_size": 3584,
            "fullatt_block_indexes": [7, 15, 23, 31],
        },
        **vision_token_ids(tokenizer),
    )


DIMENSIONS = {
    "published": Parts(  # the constructors' defaults
        QwenImageTransformer2DModel, AutoencoderKLQwenImage, published_text_encoder_config, QWEN_IMAGE.default_size
    ),
    "tiny": Parts(tiny_transformer, tiny_vae, tiny_text_encoder_config, (128, 128)),
}


def write_skeleton(folder: Path, *, dimensions: str = "published", default_size: tuple[int, int] | None = None) -> Path:
    """Write the configurations and a small tokenizer to `folder` and return it.

    `dimensions` is a key of `DIMENSIONS`; `default_size` is (height, width) in pixels.
    """
    made, tokenizer = DIMENSIONS[dimensions], train_tokenizer()
    with torch.device("meta"):
        made.transformer().save_config(folder / "transformer")
        made.vae().save_config(folder / "vae")
    text_encoder = made.text_encoder(tokenizer)
    text_encoder.architectures = [QWEN_IMAGE.text_encoder_class]  # by which vLLM knows it
    text_encoder.save_pretrained(folder / "text_encoder")
    tokenizer.save_pretrained(folder / "tokenizer")
    qwen_scheduler().save_pretrained(folder / "scheduler")  # type: ignore[attr-defined]
    index = {**_index(), "_default_size": list(default_size or made.default_size)}
    (folder / "model_index.json").write_text(json.dumps(index, indent=2))
    return folder


def _index() -> dict[str, object]:
    return {
        "_class_name": QWEN_IMAGE.pipeline_class,
        "_diffusers_version": diffusers.__version__,
        "scheduler": ["diffusers", QWEN_IMAGE.scheduler_class],
        "text_encoder": ["transformers", QWEN_IMAGE.text_encoder_class],
        "tokenizer": ["transformers", "Qwen2Tokenizer"],
        "transformer": ["diffusers", QWEN_IMAGE.transformer_class],
        "vae": ["diffusers", QWEN_IMAGE.vae_class],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the folder to write")
    parser.add_argument("--dimensions", choices=DIMENSIONS, default="published", help="of the models")
    options = parser.parse_args()
    print(write_skeleton(options.output, dimensions=options.dimensions))


if __name__ == "__main__":
    main()
