"""The two layouts of latents: transformer tokens, and the picture-shaped tensor that the VAE and clients see."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def unpack_latents(tokens: NDArray[np.float32], latent_height: int, latent_width: int) -> NDArray[np.float32]:
    """(h/2 · w/2, C·4) tokens -> (C, 1, h, w). A token is a 2×2 patch, its values ordered channel, row, column."""
    rows, columns = latent_height // 2, latent_width // 2
    channels = tokens.shape[-1] // 4
    patches = tokens.reshape(rows, columns, channels, 2, 2)
    return np.ascontiguousarray(
        patches.transpose(2, 0, 3, 1, 4).reshape(channels, 1, latent_height, latent_width), dtype=np.float32
    )


def pack_latents(latents: NDArray[np.float32]) -> NDArray[np.float32]:
    """(C, 1, h, w) -> (h/2 · w/2, C·4) tokens: the inverse of `unpack_latents`."""
    channels, _, height, width = latents.shape
    patches = latents.reshape(channels, height // 2, 2, width // 2, 2).transpose(1, 3, 0, 2, 4)
    return np.ascontiguousarray(patches.reshape(height // 2 * (width // 2), channels * 4), dtype=np.float32)
