"""Latents to pixels; where a mask keeps the picture that came along, its own pixels are put back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from qwen_image.checkpoint import Checkpoint, LoadFormat
from qwen_image.errors import InvalidRequest
from qwen_image.request.grants import Cost
from qwen_image.serving.tensors import optional_array
from qwen_image.serving.vae_model import Outputs, VaeModel
from qwen_image.vae.vae import VaeDecoder


class VaeDecoderModel(VaeModel):
    """The VAE's decoding half."""

    source = "latents"
    outputs = ("image",)

    def load(self, checkpoint: Checkpoint, load_format: LoadFormat, device: str, dtype: torch.dtype) -> None:
        self._decoder = VaeDecoder(checkpoint, load_format=load_format, device=device, dtype=dtype)
        self._decoder.warm_up(checkpoint.family.latent_channels)

    def check_cost(self, row: NDArray[Any], cost: Cost | None) -> None:
        height, width = (8 * side for side in row.shape[-2:])
        if cost is not None and (height, width) != (cost.height, cost.width):
            raise InvalidRequest(f"latents of {width}x{height} pixels; {cost.width}x{cost.height} were granted")

    def compute(self, rows: NDArray[Any]) -> Outputs:
        return {"image": self._decoder.decode(rows)}

    def finished(self, request: Any, computed: Outputs) -> Outputs:
        mask, kept = optional_array(request, "mask"), optional_array(request, "kept_image")
        if mask is None or kept is None:
            return computed
        size = computed["image"].shape[1:3]
        if mask.shape[1:] not in ((1, 1), size) or kept.shape[1:3] != mask.shape[1:]:
            raise InvalidRequest(
                f"mask is {mask.shape[1:]} and kept_image {kept.shape[1:3]} (height, width); "
                f"both must be {size} or (1, 1)"
            )
        return {"image": np.where(mask[..., None] > 0, computed["image"], kept)}
