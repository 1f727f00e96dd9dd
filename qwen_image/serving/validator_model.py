"""The public inputs, checked in one place before anything is computed; defaults filled in, seeds drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qwen_image.checkpoint import open_checkpoint
from qwen_image.request.deadline import Deadline
from qwen_image.request.grants import Cost
from qwen_image.request.params import GenerationParams, validated
from qwen_image.serving.backend import LOG, ModelSettings, error_response
from qwen_image.serving.granted import grant_column, grants_of_this_server
from qwen_image.serving.input_images import PictureReader
from qwen_image.serving.model_process import be_watched
from qwen_image.serving.preprocessed_images import picture_outputs
from qwen_image.serving.public_request import check_stream_inputs, limits_from, read_params, refuse_unknown_parameters
from qwen_image.serving.shared_memory import check_shared_memory
from qwen_image.serving.tensors import array, response, strings
from qwen_image_contract import INPUTS, Travel

DTYPES: dict[str, type[np.generic]] = {"INT32": np.int32, "INT64": np.int64, "FP32": np.float32}
NUMBERS = {each.name: DTYPES[each.datatype] for each in INPUTS if each.travel is Travel.VALIDATED}


class ValidatorModel:
    """Everything after it may trust what it passes on."""

    def initialize(self, args: Mapping[str, str]) -> None:
        settings = ModelSettings.from_args(args)
        checkpoint = open_checkpoint(settings["checkpoint"], needs_weights=False)
        height, width = checkpoint.default_size
        self._family = checkpoint.family
        self._grants = grants_of_this_server()
        self._limits = limits_from(settings)
        if warning := check_shared_memory(checkpoint, self._limits, settings.max_batch_size):
            LOG.warning("[%s] %s", settings.name, warning)
        self._pictures = PictureReader(checkpoint.family, checkpoint.edit, self._limits, (width, height))
        be_watched(settings.name)

    def execute(self, requests: list[Any]) -> list[Any]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        try:
            return response(**self._outputs(request))
        except Exception as error:
            return error_response(error, request.request_id())

    def _outputs(self, request: Any) -> dict[str, NDArray[Any]]:
        deadline = Deadline.from_now(request.timeout())
        refuse_unknown_parameters(request)
        check_stream_inputs(request)
        pictures = self._pictures.read(request, len(array(request, "prompt")))
        rows = [
            validated(params, self._limits, self._family) for params in read_params(request, pictures, self._pictures)
        ]
        decoded = picture_outputs(self._pictures, pictures, (rows[0].width, rows[0].height))
        return {
            "grant": grant_column(map(self._grant, rows, decoded["pictures"])),
            "validated_prompt": strings([row.prompt for row in rows]),
            **{
                f"validated_{name}": np.array([[getattr(row, name)] for row in rows], dtype)
                for name, dtype in NUMBERS.items()
            },
            "validated_first_step": np.array([[row.first_step] for row in rows], np.int32),
            "deadline_ns": np.full((len(rows), 1), deadline.passes_at_ns, np.int64),
            "uses_guidance": np.array([[row.uses_guidance] for row in rows]),
            **decoded,
        }

    def _grant(self, row: GenerationParams, pictures: Sequence[bytes]) -> bytes:
        cost = Cost(row.height, row.width, row.num_inference_steps, row.first_step, sum(map(len, pictures)))
        return self._grants.issue(cost)
