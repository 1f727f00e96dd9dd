"""The client of Qwen-Image on Triton: images, previews and cancellation over gRPC or HTTP."""

from qwen_image_client.async_client import AsyncClient
from qwen_image_client.call import Task
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
from qwen_image_client.options import ClientOptions, EditOptions, GenerationOptions, RowOptions
from qwen_image_client.outputs import Output
from qwen_image_client.pictures import Picture
from qwen_image_client.png import load_recipe
from qwen_image_client.recipe import EditArguments, Recipe, RecipeArguments
from qwen_image_client.request import GenerationRequest

__all__ = [
    "AsyncClient",
    "Cancelled",
    "Client",
    "ClientOptions",
    "ConnectionLost",
    "EditArguments",
    "EditOptions",
    "GeneratedImage",
    "GenerationOptions",
    "GenerationRequest",
    "InvalidRequest",
    "Output",
    "Picture",
    "Preview",
    "QwenImageClientError",
    "Recipe",
    "RecipeArguments",
    "RecipeError",
    "RowOptions",
    "ServerError",
    "ServerUnavailable",
    "ServerUnreachable",
    "Task",
    "Timeout",
    "load_recipe",
]
