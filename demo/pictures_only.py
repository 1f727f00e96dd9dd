"""The video VAE at the price of a picture: for one frame a causal 3D convolution is its last slice in 2D."""

from __future__ import annotations

from functools import partial

import torch
from diffusers import AutoencoderKLQwenImage
from diffusers.models.autoencoders.autoencoder_kl_qwenimage import (
    QwenImageCausalConv3d,
    QwenImageRMS_norm,
    QwenImageUpsample,
)
from torch import nn
from torch.nn import functional


def use_picture_kernels(vae: AutoencoderKLQwenImage) -> None:
    """Swap the layers' forward passes in place; weights and names stay as they are."""
    for module in vae.modules():
        if isinstance(module, QwenImageCausalConv3d):
            module.forward = partial(_convolve, module)
        elif isinstance(module, QwenImageRMS_norm):
            module.forward = partial(_normalise, module)
        elif isinstance(module, QwenImageUpsample):
            module.forward = partial(_double, module)


def _convolve(conv: nn.Conv3d, x: torch.Tensor, cache_x: None = None) -> torch.Tensor:
    # (B, C, 1, H, W) -> (B, C, H, W) -> (B, C', 1, H, W)
    weight = conv.weight[:, :, -1].contiguous(memory_format=torch.channels_last)
    return functional.conv2d(x[:, :, 0], weight, conv.bias, padding=conv.kernel_size[1] // 2).unsqueeze(2)


def _normalise(norm: QwenImageRMS_norm, x: torch.Tensor) -> torch.Tensor:
    """A fused kernel where the channels lie last in memory, as they do here."""
    with torch.autocast(x.device.type, enabled=False):
        normal = functional.rms_norm(x.movedim(1, -1), (x.shape[1],), norm.gamma.flatten().to(x.dtype), eps=1e-12)
    return normal.movedim(-1, 1)


def _double(upsample: nn.Upsample, x: torch.Tensor) -> torch.Tensor:
    return functional.interpolate(x, scale_factor=2.0, mode="nearest-exact")


def encode_moments(vae: AutoencoderKLQwenImage, pictures: torch.Tensor) -> torch.Tensor:
    """(B, 3, H, W) in [-1, 1] to means and log variances (B, 32, h, w)."""
    moments: torch.Tensor = vae.quant_conv(vae.encoder(pictures.unsqueeze(2)))
    return moments.squeeze(2)


def decode_latents(vae: AutoencoderKLQwenImage, latents: torch.Tensor) -> torch.Tensor:
    """(B, 16, h, w) to pictures (B, 3, H, W)."""
    pictures: torch.Tensor = vae.decoder(vae.post_quant_conv(latents.unsqueeze(2)))
    return pictures.squeeze(2)
