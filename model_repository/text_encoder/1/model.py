"""Prompts and pictures to prompt_embeds: Qwen2.5-VL on vLLM. Engine arguments are in model.json beside this file."""

from qwen_image.serving.text_encoder_model import TextEncoderModel

TritonPythonModel = TextEncoderModel
