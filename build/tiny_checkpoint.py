"""Make a tiny random Qwen-Image checkpoint in the diffusers layout: real classes, small dimensions.

Its pictures are noise. It proves plumbing and numbers: everything the server does with it is what it does with the
20 B one. `joint_attention_dim` can be given the real 3584, so that as many bytes travel as at full size.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import diffusers
import torch
from diffusers import AutoencoderKLQwenImage, FlowMatchEulerDiscreteScheduler, QwenImageTransformer2DModel
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Tokenizer,
    Qwen2VLImageProcessor,
    Qwen2VLProcessor,
)
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor

from qwen_image.families import FAMILIES, QWEN_IMAGE, QWEN_IMAGE_EDIT

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
CORPUS = (
    "a red circle above a blue square on a yellow background",
    "two small green triangles left of one large purple star",
    "a photo of a cat sitting on a wooden table in the sun",
    "a sign that says HELLO, in white letters on black",
    "blurry, low quality, watermark",
)
EDIT_AREAS = {  # pixels; the first pipeline shows text encoder and VAE the same picture
    "QwenImageEditPipeline": {"_reference_area": 128 * 128, "_condition_area": 128 * 128},
    "QwenImageEditPlusPipeline": {"_reference_area": 128 * 128, "_condition_area": 112 * 112},
}


def train_tokenizer() -> Qwen2Tokenizer:
    """A byte-level BPE of Qwen2's kind. The templates' words are whole tokens, so their prefixes have 34 and 64 too."""
    plain = Qwen2Tokenizer()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = plain.backend_tokenizer.pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1024,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    templates = [family.prompt_template.format("") for family in (QWEN_IMAGE, QWEN_IMAGE_EDIT)]
    tokenizer.train_from_iterator(templates * 50 + list(CORPUS), trainer)
    trained = json.loads(tokenizer.to_str())["model"]
    return Qwen2Tokenizer(
        vocab=trained["vocab"],
        merges=[tuple(pair) for pair in trained["merges"]],  # type: ignore[misc]
        additional_special_tokens=list(SPECIAL_TOKENS[1:]),
        model_max_length=131072,
    )


def tiny_text_encoder_config(tokenizer: Qwen2Tokenizer, joint_attention_dim: int = 64) -> Qwen2_5_VLConfig:
    head_dim = 32 if joint_attention_dim < 1024 else 128
    return Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": joint_attention_dim,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": joint_attention_dim // head_dim,
            "num_key_value_heads": 1,
            "head_dim": head_dim,
            "max_position_embeddings": 32768,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1000000.0,
                "mrope_section": [head_dim // 8, head_dim * 3 // 16, head_dim * 3 // 16],
            },
            **text_token_ids(tokenizer),
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "out_hidden_size": joint_attention_dim,
            "fullatt_block_indexes": [1],  # the other attends within windows of 4 x 4 tokens
        },
        **vision_token_ids(tokenizer),
    )


def text_token_ids(tokenizer: Qwen2Tokenizer) -> dict[str, Any]:
    """Of a text encoder's text_config, numbered as in `tokenizer`."""
    vocabulary = tokenizer.get_vocab()
    return {"bos_token_id": vocabulary["<|endoftext|>"], "eos_token_id": vocabulary["<|im_end|>"]}


def vision_token_ids(tokenizer: Qwen2Tokenizer) -> dict[str, Any]:
    """Of a text encoder's configuration, numbered as in `tokenizer`."""
    vocabulary = tokenizer.get_vocab()
    names = {"image_token_id": "image_pad", "video_token_id": "video_pad"}
    names |= {f"vision_{end}_token_id": f"vision_{end}" for end in ("start", "end")}
    return {key: vocabulary[f"<|{name}|>"] for key, name in names.items()}


def tiny_transformer(joint_attention_dim: int = 64, *, zero_cond_t: bool = False) -> QwenImageTransformer2DModel:
    return QwenImageTransformer2DModel(
        num_layers=2,
        attention_head_dim=32,
        num_attention_heads=2,
        joint_attention_dim=joint_attention_dim,
        axes_dims_rope=(8, 12, 12),
        zero_cond_t=zero_cond_t,
    )


def tiny_vae() -> AutoencoderKLQwenImage:
    return AutoencoderKLQwenImage(base_dim=8, dim_mult=[1, 2, 2, 2], num_res_blocks=1)


def tiny_processor(tokenizer: Qwen2Tokenizer) -> Qwen2VLProcessor:
    """Pictures to patches as the published checkpoints have it: 14 pixels a patch, 2 x 2 patches a token."""
    size = {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 16384}
    return Qwen2VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=size),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(size=size),
    )


def qwen_scheduler() -> FlowMatchEulerDiscreteScheduler:
    """Configured as the published checkpoint's."""
    return FlowMatchEulerDiscreteScheduler(
        use_dynamic_shifting=True,
        base_shift=0.5,
        max_shift=0.9,
        base_image_seq_len=256,
        max_image_seq_len=8192,
        shift_terminal=0.02,
    )


def tiny_pipeline(
    seed: int = 0,
    joint_attention_dim: int = 64,
    pipeline: str = QWEN_IMAGE.pipeline_class,
    zero_cond_t: bool = False,
) -> diffusers.DiffusionPipeline:
    """A pipeline of random weights in float32."""
    torch.manual_seed(seed)
    tokenizer = train_tokenizer()
    transformer = tiny_transformer(joint_attention_dim, zero_cond_t=zero_cond_t)
    made: diffusers.DiffusionPipeline = getattr(diffusers, pipeline)(
        scheduler=qwen_scheduler(),
        vae=tiny_vae(),
        text_encoder=Qwen2_5_VLForConditionalGeneration(tiny_text_encoder_config(tokenizer, joint_attention_dim)),
        tokenizer=tokenizer,
        transformer=transformer,
        **({"processor": tiny_processor(tokenizer)} if FAMILIES[pipeline].processor_class else {}),
    )
    return made


def write_tiny_checkpoint(
    folder: Path,
    *,
    seed: int = 0,
    joint_attention_dim: int = 64,
    default_size: tuple[int, int] = (128, 128),
    pipeline: str = QWEN_IMAGE.pipeline_class,
    zero_cond_t: bool = False,
) -> Path:
    """Write the checkpoint to `folder` and return it; `default_size` is (height, width) in pixels.

    `pipeline` is the class of diffusers to make; one that edits sees its pictures small. `zero_cond_t`: the
    transformer modulates reference tokens as at t = 0, as the edit checkpoints since 2511 do.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = tiny_pipeline(seed, joint_attention_dim, pipeline, zero_cond_t)
        made.save_pretrained(folder)  # type: ignore[attr-defined]
    ours = {"_default_size": list(default_size), **EDIT_AREAS.get(pipeline, {})}
    index = folder / "model_index.json"
    index.write_text(json.dumps({**json.loads(index.read_text()), **ours}, indent=2))
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, help="the folder to write")
    parser.add_argument("--seed", type=int, default=0, help="of the random weights")
    parser.add_argument(
        "--joint-attention-dim", type=int, default=64, help="width of the text states, a multiple of 64"
    )
    parser.add_argument("--pipeline", choices=sorted(FAMILIES), default=QWEN_IMAGE.pipeline_class, help="the class")
    parser.add_argument("--zero-cond-t", action="store_true", help="as the edit checkpoints since 2511")
    options = vars(parser.parse_args())
    print(write_tiny_checkpoint(options.pop("output"), **options))


if __name__ == "__main__":
    main()
