"""The public inputs, checked in one place before anything is computed; defaults filled in, seeds drawn."""

from qwen_image.serving.validator_model import ValidatorModel

TritonPythonModel = ValidatorModel
