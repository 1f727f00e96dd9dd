"""Latents to pixels; where a mask keeps the picture that came along, its own pixels are put back."""

import numpy as np

from qwen_image.errors import InvalidRequest
from qwen_image.serving.tensors import optional_array
from qwen_image.serving.vae_model import VaeModel
from qwen_image.vae import VaeDecoder


class TritonPythonModel(VaeModel):
    """The VAE's decoding half."""

    source = "latents"
    outputs = ("image",)

    def load(self, checkpoint, load_format, device, dtype):
        self._decoder = VaeDecoder(checkpoint, load_format=load_format, device=device, dtype=dtype)
        self._decoder.warm_up(checkpoint.family.latent_channels)

    def check_cost(self, row, cost):
        height, width = (8 * side for side in row.shape[-2:])
        if cost is not None and (height, width) != (cost.height, cost.width):
            raise InvalidRequest(f"latents of {width}x{height} pixels; {cost.width}x{cost.height} were granted")

    def compute(self, rows):
        return {"image": self._decoder.decode(rows)}

    def finished(self, request, computed):
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
