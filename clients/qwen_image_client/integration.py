"""For programs built on the client, such as the gateway, the page and the command line: what a caller never needs."""

from qwen_image_client._address import Address, Protocol
from qwen_image_client._call import Models, new_request_id
from qwen_image_client._errors import error_from_status
from qwen_image_client._grpc import CHANNEL_OPTIONS
from qwen_image_client._images import encode_lossy, slug
from qwen_image_client._options import DEFAULT_GUIDANCE, NO_GUIDANCE, ON_OFF, OnOff, guidance_options
from qwen_image_client._settings import DEFAULT_TIMEOUT_S, PROBE_TIMEOUT_S
from qwen_image_client._wire_types import encode_image, sha256
from qwen_image_contract import TASKS

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
    "Protocol",
    "encode_image",
    "encode_lossy",
    "error_from_status",
    "guidance_options",
    "new_request_id",
    "sha256",
    "slug",
]

VERSION = "0.1.0"  # which `--version` prints; pyproject.toml has it too, and a test compares them
