"""The demo page: a Qwen-Image server in the browser."""

from qwen_image_page.mounting import mount

__all__ = ["mount"]
