"""The client of Qwen-Image on Triton: images, previews and cancellation over gRPC or HTTP."""

from qwen_image_client.async_client import AsyncClient
from qwen_image_client.client import Client
from qwen_image_client.errors import (
    Cancelled,
    ConnectionLost,
    InvalidRequest,
    QwenImageClientError,
    RecipeError,
    ServerError,
    ServerUnavailable,
    ServerUnreachable,
    Timeout,
)
from qwen_image_client.image import GeneratedImage, Preview
from qwen_image_client.job import Output
from qwen_image_client.png import load_recipe
from qwen_image_client.recipe import Recipe, RecipeArguments
from qwen_image_client.request import GenerationOptions, GenerationRequest, RowOptions

__all__ = [
    "AsyncClient",
    "Cancelled",
    "Client",
    "ConnectionLost",
    "GeneratedImage",
    "GenerationOptions",
    "GenerationRequest",
    "InvalidRequest",
    "Output",
    "Preview",
    "QwenImageClientError",
    "Recipe",
    "RecipeArguments",
    "RecipeError",
    "RowOptions",
    "ServerError",
    "ServerUnavailable",
    "ServerUnreachable",
    "Timeout",
    "load_recipe",
]
