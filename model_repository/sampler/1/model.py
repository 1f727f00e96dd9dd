"""The denoising loop, answered when an image is done."""

from qwen_image.serving.sampler import SamplerModel


class TritonPythonModel(SamplerModel):
    """One process, many images in flight."""
