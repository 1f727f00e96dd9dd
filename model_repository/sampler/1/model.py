"""The denoising loop, answered when an image is done: one process, many images in flight."""

from qwen_image.serving.sampler_model import SamplerModel

TritonPythonModel = SamplerModel
