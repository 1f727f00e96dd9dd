"""Pixels to latents: the posterior's mean and deviation."""

from qwen_image.serving.vae_encoder_model import VaeEncoderModel

TritonPythonModel = VaeEncoderModel
