"""The tensors that an AutoencoderKLQwenImage's config.json asks for: names and shapes. Its defaults are diffusers'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

Shapes: TypeAlias = dict[str, tuple[int, ...]]


def vae_shapes(config: Mapping[str, Any]) -> Shapes:
    """Of both halves. TypeError if a number in the configuration is none."""
    z_dim = config.get("z_dim", 16)
    return {
        **_encoder(config, 2 * z_dim),
        **_conv("quant_conv", 2 * z_dim, 2 * z_dim, 1, 1, 1),
        **_conv("post_quant_conv", z_dim, z_dim, 1, 1, 1),
        **_decoder(config, z_dim),
    }


def _encoder(config: Mapping[str, Any], outputs: int) -> Shapes:
    widths = _widths(config)
    parts = enumerate(_encoder_parts(config, widths))
    return {
        **_conv3("encoder.conv_in", config.get("input_channels", 3), widths[0]),
        **{f"encoder.down_blocks.{index}.{name}": shape for index, part in parts for name, shape in part.items()},
        **_ends("encoder", middle=widths[-1], last=widths[-1], outputs=outputs),
    }


def _encoder_parts(config: Mapping[str, Any], widths: list[int]) -> Iterator[Shapes]:
    in_time = config.get("temperal_downsample", [False, True, True])
    attends, scale = config.get("attn_scales", []), 1.0
    for level, (inputs, outputs) in enumerate(pairwise(widths)):
        for block in range(config.get("num_res_blocks", 2)):
            yield _residual("", outputs if block else inputs, outputs)
            if scale in attends:
                yield _attention("", outputs)
        if level < len(widths) - 2:
            time = _conv("time_conv", outputs, outputs, 3, 1, 1) if in_time[level] else {}
            yield _conv("resample.1", outputs, outputs, 3, 3) | time
            scale /= 2


def _decoder(config: Mapping[str, Any], inputs: int) -> Shapes:
    multiples = [config.get("dim_mult", [1, 2, 4, 4])[-1], *reversed(config.get("dim_mult", [1, 2, 4, 4]))]
    widths = [config.get("base_dim", 96) * each for each in multiples]
    in_time = list(reversed(config.get("temperal_downsample", [False, True, True])))
    shapes = _conv3("decoder.conv_in", inputs, widths[0])
    for level, (before, width) in enumerate(pairwise(widths)):
        block = f"decoder.up_blocks.{level}."
        first = before // 2 if level else before  # the level before has halved it
        for index in range(config.get("num_res_blocks", 2) + 1):
            shapes |= _residual(f"{block}resnets.{index}.", width if index else first, width)
        if level < len(widths) - 2:
            shapes |= _conv(f"{block}upsamplers.0.resample.1", width, width // 2, 3, 3)
            shapes |= _conv(f"{block}upsamplers.0.time_conv", width, 2 * width, 3, 1, 1) if in_time[level] else {}
    return shapes | _ends("decoder", middle=widths[0], last=widths[-1], outputs=config.get("input_channels", 3))


def _widths(config: Mapping[str, Any]) -> list[int]:
    return [config.get("base_dim", 96) * each for each in (1, *config.get("dim_mult", [1, 2, 4, 4]))]


def _ends(half: str, *, middle: int, last: int, outputs: int) -> Shapes:
    return {
        **_residual(f"{half}.mid_block.resnets.0.", middle, middle),
        **_attention(f"{half}.mid_block.attentions.0.", middle),
        **_residual(f"{half}.mid_block.resnets.1.", middle, middle),
        f"{half}.norm_out.gamma": (last, 1, 1, 1),
        **_conv3(f"{half}.conv_out", last, outputs),
    }


def _residual(prefix: str, inputs: int, outputs: int) -> Shapes:
    return {
        f"{prefix}norm1.gamma": (inputs, 1, 1, 1),
        **_conv3(f"{prefix}conv1", inputs, outputs),
        f"{prefix}norm2.gamma": (outputs, 1, 1, 1),
        **_conv3(f"{prefix}conv2", outputs, outputs),
        **(_conv(f"{prefix}conv_shortcut", inputs, outputs, 1, 1, 1) if inputs != outputs else {}),
    }


def _attention(prefix: str, width: int) -> Shapes:
    return {
        f"{prefix}norm.gamma": (width, 1, 1),
        **_conv(f"{prefix}to_qkv", width, 3 * width, 1, 1),
        **_conv(f"{prefix}proj", width, width, 1, 1),
    }


def _conv3(name: str, inputs: int, outputs: int) -> Shapes:
    return _conv(name, inputs, outputs, 3, 3, 3)


def _conv(name: str, inputs: int, outputs: int, *kernel: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs, *kernel), f"{name}.bias": (outputs,)}
