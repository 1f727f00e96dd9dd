"""The tiny models: Qwen-Image's own classes at sizes that fit a repository, and the folder they are saved in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from diffusers import (
    AutoencoderKLQwenImage,
    FlowMatchEulerDiscreteScheduler,
    QwenImagePipeline,
    QwenImageTransformer2DModel,
)
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2Tokenizer

DEFAULT_SIZE = (128, 128)  # height, width: what the checkpoint was mostly trained at
_SCHEDULE = {
    "use_dynamic_shifting": True,
    "base_shift": 0.5,
    "max_shift": 0.9,
    "base_image_seq_len": 256,
    "max_image_seq_len": 8192,
    "shift": 1.0,
    "shift_terminal": 0.02,
    "time_shift_type": "exponential",
    "num_train_timesteps": 1000,
}


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """How large each model is; the smoke test shrinks them."""

    text_dim: int = 192
    text_layers: int = 3
    text_mlp: int = 384
    blocks: int = 8
    heads: int = 5
    head_dim: int = 32
    vae_dim: int = 16
    vae_multipliers: tuple[int, ...] = (2, 3, 4, 4)


TINY = ModelSizes(64, 1, 64, 1, 2, 32, 8, (1, 1, 1, 1))


def build_vae(sizes: ModelSizes) -> AutoencoderKLQwenImage:
    vae = AutoencoderKLQwenImage(
        base_dim=sizes.vae_dim,
        z_dim=16,
        dim_mult=list(sizes.vae_multipliers),
        num_res_blocks=1,
        temperal_downsample=[False, True, True],
        latents_mean=[0.0] * 16,
        latents_std=[1.0] * 16,
    )
    _silence_time(vae)
    return vae


def _silence_time(vae: AutoencoderKLQwenImage) -> None:
    """Zero what only a second video frame could reach: it gets no gradient from pictures, and packs to nothing."""
    for name, parameter in vae.named_parameters():
        if "time_conv" in name:
            torch.nn.init.zeros_(parameter)
        elif parameter.dim() == 5:
            with torch.no_grad():
                parameter[:, :, :-1] = 0


def build_transformer(sizes: ModelSizes) -> QwenImageTransformer2DModel:
    height = width = sizes.head_dim * 3 // 8
    transformer = QwenImageTransformer2DModel(
        patch_size=2,
        in_channels=64,
        out_channels=16,
        num_layers=sizes.blocks,
        attention_head_dim=sizes.head_dim,
        num_attention_heads=sizes.heads,
        joint_attention_dim=sizes.text_dim,
        axes_dims_rope=(sizes.head_dim - height - width, height, width),
    )
    _start_quiet(transformer)
    return transformer


def _start_quiet(transformer: QwenImageTransformer2DModel) -> None:
    """Zero the modulations and the output, so that every block begins by passing its input on."""
    modulations = [layer[1] for block in transformer.transformer_blocks for layer in (block.img_mod, block.txt_mod)]
    for linear in (*modulations, transformer.norm_out.linear, transformer.proj_out):
        torch.nn.init.zeros_(linear.weight)
        torch.nn.init.zeros_(linear.bias)


def build_text_encoder(sizes: ModelSizes, tokenizer: Qwen2Tokenizer) -> Qwen2_5_VLForConditionalGeneration:
    def token(text: str) -> int:
        return int(tokenizer.convert_tokens_to_ids(text))

    text_config = {
        "vocab_size": -(-len(tokenizer) // 64) * 64,
        "hidden_size": sizes.text_dim,
        "intermediate_size": sizes.text_mlp,
        "num_hidden_layers": sizes.text_layers,
        "num_attention_heads": sizes.text_dim // 64,
        "num_key_value_heads": sizes.text_dim // 64,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [8, 12, 12]},
        "bos_token_id": token("<|endoftext|>"),
        "eos_token_id": token("<|im_end|>"),
        "tie_word_embeddings": True,
    }
    vision_config = {
        "depth": 1,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_heads": 1,
        "out_hidden_size": sizes.text_dim,
        "fullatt_block_indexes": [0],
    }
    config = Qwen2_5_VLConfig(
        text_config=text_config,
        vision_config=vision_config,
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=True,
    )
    return Qwen2_5_VLForConditionalGeneration(config)


def build_scheduler() -> FlowMatchEulerDiscreteScheduler:
    return FlowMatchEulerDiscreteScheduler(**_SCHEDULE)


def assemble(
    vae: AutoencoderKLQwenImage,
    text_encoder: Qwen2_5_VLForConditionalGeneration,
    transformer: QwenImageTransformer2DModel,
    tokenizer: Qwen2Tokenizer,
) -> QwenImagePipeline:
    return QwenImagePipeline(
        scheduler=build_scheduler(),
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        transformer=transformer,
    )


def save_checkpoint(pipeline: QwenImagePipeline, folder: Path) -> None:
    """The diffusers folder in bf16, with the default size that the server reads from its index."""
    pipeline.to(dtype=torch.bfloat16)
    pipeline.save_pretrained(folder)
    index_path = folder / "model_index.json"
    index = json.loads(index_path.read_text())
    index["_default_size"] = list(DEFAULT_SIZE)
    index_path.write_text(json.dumps(index, indent=2) + "\n")
