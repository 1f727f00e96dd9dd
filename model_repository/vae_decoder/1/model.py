"""Latents to pixels: in PyTorch, or by a plan on Triton's TensorRT backend where the repository has one."""

import time

import numpy as np
import torch

from qwen_image.checkpoint import open_checkpoint
from qwen_image.serving.backend import ModelSettings, error_response, log_warm
from qwen_image.serving.bls import call_and_wait
from qwen_image.serving.tensors import array, response
from qwen_image.vae import VaeDecoder


class TritonPythonModel:
    """The dynamic batcher hands over latents of one size."""

    def initialize(self, args):
        start = time.perf_counter()
        settings = ModelSettings.from_args(args)
        self._plan = settings["plan"]
        if not self._plan:
            torch.set_num_threads(settings.integer("threads"))
            checkpoint = open_checkpoint(settings["checkpoint"])
            self._decoder = VaeDecoder(checkpoint, device=settings["device"], dtype=getattr(torch, settings["dtype"]))
            self._decoder.decode(np.zeros((1, checkpoint.family.latent_channels, 1, 8, 8), np.float32))
        log_warm(settings.name, time.perf_counter() - start)

    def execute(self, requests):
        if self._plan:
            return [self._answer_by_plan(request) for request in requests]
        latents = [array(request, "latents") for request in requests]
        try:
            pixels = self._decoder.decode(np.concatenate(latents))
        except Exception as error:
            return [error_response(error, request.request_id()) for request in requests]
        ends = np.cumsum([len(each) for each in latents])[:-1]
        return [response(image=each) for each in np.split(pixels, ends)]

    def _answer_by_plan(self, request):
        """Row by row: as fast on a GPU, and the plan's memory is that of one picture."""
        try:
            rows = [
                call_and_wait(self._plan, {"latents": row[None]}, "image", request.request_id())
                for row in array(request, "latents")
            ]
        except Exception as error:
            return error_response(error, request.request_id())
        return response(image=np.concatenate(rows))
