"""For programs built on the client, such as the gateway, the page and the command line: what a caller never needs."""

from qwen_image_client.address import Address
from qwen_image_client.call import Models
from qwen_image_client.guidance import DEFAULT_GUIDANCE, NO_GUIDANCE, ON_OFF, OnOff, guidance_options
from qwen_image_client.image import slug
from qwen_image_client.png import encode_lossy
from qwen_image_client.settings import DEFAULT_TIMEOUT_S, PROBE_TIMEOUT_S, TASKS
from qwen_image_client.status import error_from_status
from qwen_image_client.transport.grpc_codec import CHANNEL_OPTIONS
from qwen_image_client.version import VERSION

__all__ = [
    "CHANNEL_OPTIONS",
    "DEFAULT_GUIDANCE",
    "DEFAULT_TIMEOUT_S",
    "NO_GUIDANCE",
    "ON_OFF",
    "PROBE_TIMEOUT_S",
    "TASKS",
    "VERSION",
    "Address",
    "Models",
    "OnOff",
    "encode_lossy",
    "error_from_status",
    "guidance_options",
    "slug",
]
