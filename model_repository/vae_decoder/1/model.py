"""Latents to pixels; where a mask keeps the picture that came along, its own pixels are put back."""

import numpy as np

from qwen_image.serving.tensors import optional_array
from qwen_image.serving.vae_model import VaeModel
from qwen_image.vae import VaeDecoder


class TritonPythonModel(VaeModel):
    """The VAE's decoding half."""

    source = "latents"
    outputs = ("image",)

    def load(self, checkpoint, device, dtype):
        self._decoder = VaeDecoder(checkpoint, device=device, dtype=dtype)
        self._decoder.decode(np.zeros((1, checkpoint.family.latent_channels, 1, 8, 8), np.float32))

    def compute(self, rows):
        return {"image": self._decoder.decode(rows)}

    def finished(self, request, computed):
        mask, kept = optional_array(request, "mask"), optional_array(request, "kept_image")
        if mask is None or kept is None:
            return computed
        return {"image": np.where(mask[..., None] > 0, computed["image"], kept)}
