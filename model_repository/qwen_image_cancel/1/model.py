"""Ends a request that is queued or running, by its request id; and the whole server when a process died or hangs."""

from qwen_image.serving.cancel_model import CancelModel

TritonPythonModel = CancelModel
