"""What a checkpoint folder holds, and what is checked before anything of it is loaded."""

from qwen_image.checkpoint.checkpoint import Checkpoint, LoadFormat
from qwen_image.checkpoint.opening import open_checkpoint, resolve_checkpoint

__all__ = ["Checkpoint", "LoadFormat", "open_checkpoint", "resolve_checkpoint"]
