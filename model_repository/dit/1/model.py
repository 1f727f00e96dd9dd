"""The diffusion transformer: every row of a batch advanced by its own sigmas."""

from qwen_image.serving.dit_model import DitModel

TritonPythonModel = DitModel
