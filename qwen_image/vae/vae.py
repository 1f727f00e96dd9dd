"""The VAE for pictures: latents to pixels and back, as modules that PyTorch runs and ONNX files are made of.

AutoencoderKLQwenImage is a video model. A picture is its first frame, with nothing but zeros before it: of a causal 3D
convolution only the last slice in time meets the picture, and that slice is a 2D convolution. The modules here are
diffusers' own, with such layers in place of theirs: a third of the weights, and no axis for time.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from diffusers import AutoencoderKLQwenImage
from diffusers.models.autoencoders.autoencoder_kl_qwenimage import (
    QwenImageAttentionBlock,
    QwenImageCausalConv3d,
    QwenImageResample,
    QwenImageRMS_norm,
    QwenImageUpsample,
)
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from qwen_image.checkpoint import Checkpoint, LoadFormat
from qwen_image.checkpoint.weight_checks import check_weights
from qwen_image.finite import check_finite, not_finite

Vae: TypeAlias = Any  # AutoencoderKLQwenImage, whose types don't show what it holds
_ATTENTION_PARTS = 4


class PictureDecoder(nn.Module):
    """Latents to pixels, computed in the dtype of `vae`, whose decoding half is changed and taken over."""

    def __init__(self, vae: Vae) -> None:
        super().__init__()
        self._dtype = vae.dtype
        self.normalisation = _Normalisation(vae)
        self.post_quant_conv = _for_one_frame(vae.post_quant_conv)
        self.decoder = _for_one_frame(vae.decoder)

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        """(B, 16, 1, h, w) float32, normalised, h and w even -> (B, 8h, 8w, 3) uint8."""
        return _as_pixels(self.picture(latents))

    def picture(self, latents: torch.Tensor) -> torch.Tensor:
        """What `forward` rounds: (B, 8h, 8w, 3) float32 on [0, 1]."""
        return _on_unit_range(self.decoded(latents))

    def decoded(self, latents: torch.Tensor) -> torch.Tensor:
        """(B, 3, 8h, 8w), about ±1, in the dtype of `vae`."""
        z = self.normalisation.undo(latents[:, :, 0]).to(self._dtype)
        decoded: torch.Tensor = self.decoder(self.post_quant_conv(z))
        return decoded


class PictureEncoder(nn.Module):
    """Pixels to latents, computed in the dtype of `vae`, whose encoding half is changed and taken over."""

    def __init__(self, vae: Vae) -> None:
        super().__init__()
        self._dtype = vae.dtype
        self.normalisation = _Normalisation(vae)
        self.encoder = _for_one_frame(vae.encoder)
        self.quant_conv = _for_one_frame(vae.quant_conv)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, H, W, 3) uint8, H and W multiples of 16 -> two of (B, 16, 1, H/8, W/8) float32, normalised.

        The posterior's mean, which is its mode, and its standard deviation: DiagonalGaussianDistribution's.
        """
        pixels = (image.float() / 255 * 2 - 1).permute(0, 3, 1, 2).to(self._dtype)
        moments: torch.Tensor = self.quant_conv(self.encoder(pixels))  # (B, 32, h, w): means, log variances
        mean, log_variance = moments.float().chunk(2, dim=1)
        deviation = torch.exp(0.5 * log_variance.clamp(-30, 20)) / self.normalisation.std
        return self.normalisation(mean).unsqueeze(2), deviation.unsqueeze(2)


class VaeDecoder:
    """A checkpoint's PictureDecoder, from and to numpy."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        load_format: LoadFormat = LoadFormat.AUTO,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        decoder = PictureDecoder(load_vae(checkpoint, dtype, load_format, device)).to(device)
        # Channels last: the norms read what lies together; on a CPU it takes two thirds of the time.
        self._decoder = decoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._device = device

    @torch.inference_mode()
    def decode(self, latents: NDArray[np.float32]) -> NDArray[np.uint8]:
        """(B, 16, 1, h, w) normalised latents, h and w even -> (B, 8h, 8w, 3) pixels, rounded to 0..255.

        NotFinite for a row of which a value is NaN or infinite.
        """
        rows = torch.from_numpy(np.array(latents)).split(1)
        # One by one: a quarter less time on two cores, and all at 2048 × 2048 may not fit into memory.
        return np.concatenate([self._decode_row(row, position) for position, row in enumerate(rows)])

    @torch.inference_mode()
    def warm_up(self, latent_channels: int) -> None:
        """Compute once; whether it is finite is for requests to say."""
        self._decoder(torch.zeros(1, latent_channels, 1, 8, 8, device=self._device))

    def _decode_row(self, latents: torch.Tensor, row: int) -> NDArray[np.uint8]:
        decoded = self._decoder.decoded(latents.to(self._device))
        is_finite = torch.isfinite(decoded).all()
        pixels = _as_pixels(_on_unit_range(decoded)).cpu()
        if not is_finite:  # read after the pixels, which had to be waited for anyway
            raise not_finite("vae_decoder", f"pixels of row {row}")
        return np.asarray(pixels.numpy())


class VaeEncoder:
    """A checkpoint's PictureEncoder, from and to numpy."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        load_format: LoadFormat = LoadFormat.AUTO,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        encoder = PictureEncoder(load_vae(checkpoint, dtype, load_format, device)).to(device)
        self._encoder = encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._device = device

    @torch.inference_mode()
    def warm_up(self) -> None:
        """Compute once; whether it is finite is for requests to say."""
        self._encoder(torch.zeros(1, 64, 64, 3, dtype=torch.uint8, device=self._device))

    @torch.inference_mode()
    def encode(self, image: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(B, H, W, 3) pixels, H and W multiples of 16 -> mean and deviation, each (B, 16, 1, H/8, W/8).

        NotFinite if a value is NaN or infinite.
        """
        rows = [self._encoder(row.to(self._device)) for row in torch.from_numpy(np.array(image)).split(1)]
        mean, deviation = (torch.cat(each).cpu().numpy() for each in zip(*rows, strict=True))
        for values in (mean, deviation):
            check_finite(values, "vae_encoder", "latents")
        return mean, deviation


def _on_unit_range(decoded: torch.Tensor) -> torch.Tensor:
    """(B, 3, H, W) about ±1 -> (B, H, W, 3) float32 on [0, 1]."""
    return (decoded.float() / 2 + 0.5).clamp(0, 1).permute(0, 2, 3, 1)


def _as_pixels(picture: torch.Tensor) -> torch.Tensor:
    return (picture * 255).round().to(torch.uint8)


def load_vae(
    checkpoint: Checkpoint, dtype: torch.dtype, load_format: LoadFormat = LoadFormat.AUTO, device: str = "cpu"
) -> Vae:
    """diffusers' model with the checkpoint's weights, or with random ones that were never anywhere but on `device`."""
    if load_format is LoadFormat.DUMMY:
        with torch.device("meta"):
            vae = AutoencoderKLQwenImage.from_config(checkpoint.config("vae")).type(dtype)
        return _filled(vae.to_empty(device=device)).eval()
    check_weights(checkpoint, ["vae"])
    return AutoencoderKLQwenImage.from_pretrained(checkpoint.folder / "vae", torch_dtype=dtype).eval().to(device)


@torch.no_grad()
def _filled(vae: Vae, seed: int = 0) -> Vae:
    """Random convolutions that keep the scale of what they take, the same every time; norms of ones."""
    generator = torch.Generator(vae.device).manual_seed(seed)
    for name, each in vae.named_parameters():
        if name.endswith("gamma"):
            each.fill_(1)
        elif name.endswith("bias"):
            each.zero_()
        else:
            each.normal_(0, each[0].numel() ** -0.5, generator=generator)  # (out channels, all that each one sums up)
    return vae


class _Normalisation(nn.Module):
    """(B, 16, h, w) float32 to mean 0 and deviation 1 by the configuration's figures, and back."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, vae: Vae) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(vae.config.latents_mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(vae.config.latents_std).view(1, -1, 1, 1))

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        return (latents - self.mean) / self.std

    def undo(self, latents: torch.Tensor) -> torch.Tensor:
        return latents * self.std + self.mean


class _ChannelNorm(nn.Module):
    """Root-mean-square norm over the channels of (B, C, H, W), in float32 inside."""

    def __init__(self, norm: QwenImageRMS_norm) -> None:
        super().__init__()
        self.weight = nn.Parameter(norm.gamma.detach().float().view(-1, 1, 1) * norm.scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.is_cuda:
            from qwen_image.vae.kernels import channel_norm  # Triton's compiler, which only GPUs need

            return channel_norm(x.contiguous(memory_format=torch.channels_last), self.weight)
        wide = x.float()
        length = torch.linalg.vector_norm(wide, dim=1, keepdim=True).clamp_min(1e-12)
        normal: torch.Tensor = wide / length * self.weight
        return normal.to(x.dtype)


class _Attention(nn.Module):
    """Self-attention over the positions of (B, C, h, w), h and w even, with one head of all channels."""

    def __init__(self, block: QwenImageAttentionBlock) -> None:
        super().__init__()
        self.norm, self.to_qkv, self.proj = block.norm, block.to_qkv, block.proj

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        qkv = self.to_qkv(self.norm(x)).flatten(2).transpose(1, 2).unsqueeze(1)  # (B, 1, h * w, 3 * C)
        query, key, value = qkv.contiguous().chunk(3, dim=-1)
        # TensorRT has no kernel for a head so wide and holds all scores: by parts, a quarter of (h * w)² of them.
        parts = query.unflatten(2, (_ATTENTION_PARTS, -1)).unbind(2)
        attended = torch.cat([functional.scaled_dot_product_attention(part, key, value) for part in parts], dim=2)
        projected: torch.Tensor = self.proj(attended.squeeze(1).transpose(1, 2).reshape(x.shape))
        return x + projected


def _for_one_frame(module: nn.Module) -> nn.Module:
    """What does for (B, C, H, W) what `module` did for (B, C, 1, H, W): a new module, or the same changed in place."""
    if isinstance(module, QwenImageCausalConv3d):
        return _last_slice(module)
    if isinstance(module, QwenImageRMS_norm):
        return _ChannelNorm(module)
    if isinstance(module, QwenImageUpsample):  # doubles by way of float32; copies are exact in any dtype
        return nn.Upsample(scale_factor=2.0, mode="nearest")
    if isinstance(module, QwenImageResample):  # its convolution in time starts with the second frame
        return _for_one_frame(module.resample)
    for name, child in list(module.named_children()):
        setattr(module, name, _for_one_frame(child))
    return _Attention(module) if isinstance(module, QwenImageAttentionBlock) else module


def _last_slice(conv: QwenImageCausalConv3d) -> nn.Conv2d:
    out_channels, in_channels, _, height, width = conv.weight.shape
    padding = (height // 2, width // 2)
    folded: nn.Conv2d = nn.utils.skip_init(nn.Conv2d, in_channels, out_channels, (height, width), padding=padding)
    folded.weight = nn.Parameter(conv.weight.detach()[:, :, -1].clone())
    folded.bias = conv.bias
    return folded
