"""Write Qwen-Image's configurations at their published size, without weights: what `load_format=dummy` is served from.

A server over it takes the memory and the time that the real one takes; its pictures are noise.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import diffusers
import torch
from diffusers import AutoencoderKLQwenImage, QwenImageTransformer2DModel
from transformers import Qwen2_5_VLConfig, Qwen2Tokenizer

from build.tiny_checkpoint import qwen_scheduler, train_tokenizer
from qwen_image.families import QWEN_IMAGE


def write_skeleton(folder: Path, *, default_size: tuple[int, int] = QWEN_IMAGE.default_size) -> Path:
    """Write the configurations and a small tokenizer to `folder` and return it; `default_size` is (height, width)."""
    tokenizer = train_tokenizer()
    with torch.device("meta"):  # their constructors' defaults are the published dimensions
        QwenImageTransformer2DModel().save_config(folder / "transformer")
        AutoencoderKLQwenImage().save_config(folder / "vae")
    text_encoder_config(tokenizer).save_pretrained(folder / "text_encoder")
    tokenizer.save_pretrained(folder / "tokenizer")
    qwen_scheduler().save_pretrained(folder / "scheduler")
    index = {
        "_class_name": QWEN_IMAGE.pipeline_class,
        "_diffusers_version": diffusers.__version__,
        "_default_size": list(default_size),
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", QWEN_IMAGE.text_encoder_class],
        "tokenizer": ["transformers", "Qwen2Tokenizer"],
        "transformer": ["diffusers", QWEN_IMAGE.transformer_class],
        "vae": ["diffusers", QWEN_IMAGE.vae_class],
    }
    (folder / "model_index.json").write_text(json.dumps(index, indent=2))
    return folder


def text_encoder_config(tokenizer: Qwen2Tokenizer) -> Qwen2_5_VLConfig:
    """Qwen2.5-VL 7B's, its special tokens numbered as in `tokenizer`."""
    vocabulary = tokenizer.get_vocab()
    return Qwen2_5_VLConfig(
        architectures=[QWEN_IMAGE.text_encoder_class],
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
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0, "mrope_section": [16, 24, 24]},
            "bos_token_id": vocabulary["<|endoftext|>"],
            "eos_token_id": vocabulary["<|im_end|>"],
        },
        vision_config={
            "depth": 32,
            "hidden_size": 1280,
            "intermediate_size": 3420,
            "num_heads": 16,
            "out_hidden_size": 3584,
            "fullatt_block_indexes": [7, 15, 23, 31],
        },
        image_token_id=vocabulary["<|image_pad|>"],
        video_token_id=vocabulary["<|video_pad|>"],
        vision_start_token_id=vocabulary["<|vision_start|>"],
        vision_end_token_id=vocabulary["<|vision_end|>"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    print(write_skeleton(parser.parse_args().output))


if __name__ == "__main__":
    main()
