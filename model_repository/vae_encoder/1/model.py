"""Pixels to latents: the posterior's mean and deviation."""

from qwen_image.serving.vae_model import VaeModel
from qwen_image.vae import VaeEncoder


class TritonPythonModel(VaeModel):
    """The VAE's encoding half."""

    source = "image"
    outputs = ("latents", "deviation")

    def load(self, checkpoint, load_format, device, dtype):
        self._encoder = VaeEncoder(checkpoint, load_format=load_format, device=device, dtype=dtype)
        self._encoder.warm_up()

    def compute(self, rows):
        return dict(zip(self.outputs, self._encoder.encode(rows), strict=True))
