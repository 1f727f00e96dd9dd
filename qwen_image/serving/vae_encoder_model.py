"""Pixels to latents: the posterior's mean and deviation."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray

from qwen_image.checkpoint import Checkpoint, LoadFormat
from qwen_image.serving.vae_model import Outputs, VaeModel
from qwen_image.vae.vae import VaeEncoder


class VaeEncoderModel(VaeModel):
    """The VAE's encoding half."""

    source = "image"
    outputs = ("latents", "deviation")

    def load(self, checkpoint: Checkpoint, load_format: LoadFormat, device: str, dtype: torch.dtype) -> None:
        self._encoder = VaeEncoder(checkpoint, load_format=load_format, device=device, dtype=dtype)
        self._encoder.warm_up()

    def compute(self, rows: NDArray[Any]) -> Outputs:
        return dict(zip(self.outputs, self._encoder.encode(rows), strict=True))
