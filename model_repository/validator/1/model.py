"""The public inputs, checked in one place before anything is computed; defaults filled in, seeds drawn."""

import numpy as np

from qwen_image.families import FAMILIES
from qwen_image.params import validated
from qwen_image.serving.backend import ModelSettings, error_response
from qwen_image.serving.public_request import limits_from, read_params, refuse_unknown_parameters
from qwen_image.serving.tensors import response, strings


class TritonPythonModel:
    """Everything after it may trust what it passes on."""

    def initialize(self, args):
        settings = ModelSettings.from_args(args)
        self._family = FAMILIES[settings["family"]]
        self._limits = limits_from(settings)
        self._default_size = (settings.integer("default_height"), settings.integer("default_width"))

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        try:
            refuse_unknown_parameters(request)
            rows = [
                validated(params, self._limits, self._family)
                for params in read_params(request, self._default_size, self._family)
            ]
        except Exception as error:
            return error_response(error, request.request_id())
        return response(
            validated_prompt=strings([row.prompt for row in rows]),
            **{
                f"validated_{name}": np.array([[getattr(row, name)] for row in rows], dtype)
                for name, dtype in (
                    ("height", np.int32),
                    ("width", np.int32),
                    ("num_inference_steps", np.int32),
                    ("true_cfg_scale", np.float32),
                    ("seed", np.int64),
                )
            },
        )
