"""The tensors that a component's config.json asks for: names and shapes.

They are those of diffusers' and transformers' modules, which take seven seconds to import; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from qwen_image.checkpoint.expected_vae_tensors import vae_shapes

Config: TypeAlias = Mapping[str, Any]
Shapes: TypeAlias = dict[str, tuple[int, ...]]

TIMESTEP_CHANNELS = 256


def expected_shapes(component: str, config: Config) -> Shapes:
    """Of a transformer, vae or text_encoder. KeyError or TypeError if the configuration lacks a number."""
    return {"transformer": transformer_shapes, "vae": vae_shapes, "text_encoder": text_encoder_shapes}[component](
        config
    )


def transformer_shapes(config: Config) -> Shapes:
    """QwenImageTransformer2DModel's."""
    head_dim = config["attention_head_dim"]
    dim = head_dim * config["num_attention_heads"]
    patch_values = config.get("patch_size", 2) ** 2 * (config.get("out_channels") or config["in_channels"])
    return {
        **_linear("time_text_embed.timestep_embedder.linear_1", TIMESTEP_CHANNELS, dim),
        **_linear("time_text_embed.timestep_embedder.linear_2", dim, dim),
        "txt_norm.weight": (config["joint_attention_dim"],),
        **_linear("img_in", config["in_channels"], dim),
        **_linear("txt_in", config["joint_attention_dim"], dim),
        **_repeated("transformer_blocks", config["num_layers"], _transformer_block(dim, head_dim)),
        **_linear("norm_out.linear", dim, 2 * dim),
        **_linear("proj_out", dim, patch_values),
    }


def _transformer_block(dim: int, head_dim: int) -> Shapes:
    shapes: Shapes = {f"attn.norm_{name}.weight": (head_dim,) for name in ("q", "k", "added_q", "added_k")}
    attention = ("to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj", "to_out.0", "to_add_out")
    for name in attention:
        shapes |= _linear(f"attn.{name}", dim, dim)
    for stream in ("img", "txt"):
        shapes |= _linear(f"{stream}_mod.1", dim, 6 * dim)
        shapes |= _linear(f"{stream}_mlp.net.0.proj", dim, 4 * dim) | _linear(f"{stream}_mlp.net.2", 4 * dim, dim)
    return shapes


def text_encoder_shapes(config: Config) -> Shapes:
    """Qwen2_5_VLForConditionalGeneration's, as transformers 5 names them; without lm_head, which nothing here uses."""
    text, vision = config.get("text_config", config), config["vision_config"]
    dim, vision_dim = text["hidden_size"], vision["hidden_size"]
    patch = (vision.get("temporal_patch_size", 2), *(vision.get("patch_size", 14),) * 2)
    merged = vision_dim * vision.get("spatial_merge_size", 2) ** 2
    return {
        "model.language_model.embed_tokens.weight": (text["vocab_size"], dim),
        **_repeated("model.language_model.layers", text["num_hidden_layers"], _text_layer(text)),
        "model.language_model.norm.weight": (dim,),
        "model.visual.patch_embed.proj.weight": (vision_dim, vision.get("in_channels", 3), *patch),
        **_repeated("model.visual.blocks", vision["depth"], _vision_block(vision_dim, vision["intermediate_size"])),
        "model.visual.merger.ln_q.weight": (vision_dim,),
        **_linear("model.visual.merger.mlp.0", merged, merged),
        **_linear("model.visual.merger.mlp.2", merged, vision["out_hidden_size"]),
    }


def _text_layer(text: Config) -> Shapes:
    dim, heads, inner = text["hidden_size"], text["num_attention_heads"], text["intermediate_size"]
    key_dim = dim // heads * text["num_key_value_heads"]
    return {
        "input_layernorm.weight": (dim,),
        "post_attention_layernorm.weight": (dim,),
        **_linear("self_attn.q_proj", dim, dim),
        **_linear("self_attn.k_proj", dim, key_dim),
        **_linear("self_attn.v_proj", dim, key_dim),
        "self_attn.o_proj.weight": (dim, dim),
        "mlp.gate_proj.weight": (inner, dim),
        "mlp.up_proj.weight": (inner, dim),
        "mlp.down_proj.weight": (dim, inner),
    }


def _vision_block(dim: int, inner: int) -> Shapes:
    return {
        "norm1.weight": (dim,),
        "norm2.weight": (dim,),
        **_linear("attn.qkv", dim, 3 * dim),
        **_linear("attn.proj", dim, dim),
        **_linear("mlp.gate_proj", dim, inner),
        **_linear("mlp.up_proj", dim, inner),
        **_linear("mlp.down_proj", inner, dim),
    }


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _repeated(name: str, count: int, shapes: Shapes) -> Shapes:
    return {f"{name}.{index}.{each}": shape for index in range(count) for each, shape in shapes.items()}
