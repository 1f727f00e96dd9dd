"""Latents to pixels; where a mask keeps the picture that came along, its own pixels are put back."""

from qwen_image.serving.vae_decoder_model import VaeDecoderModel

TritonPythonModel = VaeDecoderModel
