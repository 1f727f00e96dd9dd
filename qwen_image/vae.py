"""The VAE's decoding half in PyTorch: latents to pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from qwen_image.checkpoint import Checkpoint


class VaeDecoder:
    """AutoencoderKLQwenImage, with the normalisation of its configuration and the conversion to bytes."""

    def __init__(self, checkpoint: Checkpoint, *, device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        from diffusers import AutoencoderKLQwenImage

        self._vae = (
            AutoencoderKLQwenImage.from_pretrained(checkpoint.folder / "vae", torch_dtype=dtype).to(device).eval()
        )
        shape = (1, self._vae.config.z_dim, 1, 1, 1)
        self._mean = torch.tensor(self._vae.config.latents_mean, dtype=dtype, device=device).view(shape)
        self._std = torch.tensor(self._vae.config.latents_std, dtype=dtype, device=device).view(shape)

    @torch.inference_mode()
    def decode(self, latents: NDArray[np.float32]) -> NDArray[np.uint8]:
        """(B, 16, 1, h, w) normalised latents -> (B, 8h, 8w, 3) pixels, rounded to 0..255."""
        z = torch.from_numpy(np.array(latents)).to(self._mean.device, self._mean.dtype)
        decoded = self._vae.decode(z * self._std + self._mean, return_dict=False)[0][:, :, 0]  # (B, 3, H, W) in ±1
        pixels = (decoded.float() / 2 + 0.5).clamp(0, 1).mul(255).round().to(torch.uint8)
        return np.asarray(pixels.permute(0, 2, 3, 1).contiguous().cpu().numpy())
