"""The gateway: OpenAI's images API, over HTTP, in front of Qwen-Image on Triton."""

from qwen_image_gateway.app import create_app
from qwen_image_gateway.settings import GatewaySettings

__all__ = ["GatewaySettings", "create_app"]
