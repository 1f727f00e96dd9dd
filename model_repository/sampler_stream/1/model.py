"""The denoising loop, answered after every step: the sampler under Triton's decoupled policy."""

from qwen_image.serving.sampler_model import StreamingSamplerModel

TritonPythonModel = StreamingSamplerModel
