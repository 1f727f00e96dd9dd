"""An image's pictures as transformer tokens, by way of the `vae_encoder` model."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qwen_image.sampling.latents import pack_latents
from qwen_image.serving.bls import call
from qwen_image.serving.job import Image

Tokens = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class PictureTokens:
    """(R, channels) of pictures to look at, or (L, channels) of the one to start from; None where there is none."""

    references: Tokens | None = None
    reference_grids: NDArray[np.int32] | None = None  # (N, 2) token rows and columns
    start: Tokens | None = None
    start_deviation: Tokens | None = None
    mask: Tokens | None = None  # 1 where it may paint

    @property
    def reference_tokens(self) -> int:
        return 0 if self.references is None else len(self.references)

    def inputs(self) -> dict[str, NDArray[np.generic]]:
        """As inputs of `dit`, one row."""
        named = {
            "reference_latents": self.references,
            "reference_grids": self.reference_grids,
            "start_latents": self.start,
            "start_deviation": self.start_deviation,
            "start_mask": self.mask,
        }
        return {name: tensor[None] for name, tensor in named.items() if tensor is not None}


async def picture_tokens(
    image: Image, request_id: str, *, are_references: bool, vae_scale_factor: int
) -> PictureTokens:
    """Encode what came along with one image."""
    if not image.pictures:
        return PictureTokens()
    encoded = await asyncio.gather(
        *(call("vae_encoder", {"image": each[None]}, ["latents", "deviation"], request_id) for each in image.pictures)
    )
    tokens = [pack_latents(latents[0]) for latents, _ in encoded]
    if are_references:
        grids = [(latents.shape[-2] // 2, latents.shape[-1] // 2) for latents, _ in encoded]
        return PictureTokens(references=np.concatenate(tokens), reference_grids=np.array(grids, np.int32))
    mask = None if image.mask is None else _mask_tokens(image.mask, vae_scale_factor, encoded[0][0].shape[1])
    return PictureTokens(start=tokens[0], start_deviation=pack_latents(encoded[0][1][0]), mask=mask)


def _mask_tokens(mask: NDArray[np.uint8], factor: int, channels: int) -> Tokens:
    """(H, W) of 0 and 255 to tokens of 0 and 1: each latent position takes its first pixel's, as the pipeline does."""
    small = (mask[::factor, ::factor] > 0).astype(np.float32)
    return pack_latents(np.broadcast_to(small, (channels, 1, *small.shape)))
