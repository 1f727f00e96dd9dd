"""The denoising loop, answered after every step."""

from qwen_image.serving.sampler import SamplerModel


class TritonPythonModel(SamplerModel):
    """The sampler under Triton's decoupled policy."""

    streams = True
