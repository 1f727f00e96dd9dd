"""The client of Qwen-Image on Triton: images, previews and cancellation over gRPC or HTTP."""

from qwen_image_client._async_client import AsyncClient
from qwen_image_client._client import Client
from qwen_image_client._errors import (
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
from qwen_image_client._images import GeneratedImage, Preview, load_recipe
from qwen_image_client._options import ClientOptions, EditOptions, GenerationOptions, RowOptions
from qwen_image_client._recipe import EditArguments, Recipe, RecipeArguments
from qwen_image_client._request import GenerationRequest
from qwen_image_client._server_info import ServerInfo
from qwen_image_client._tensors import Output
from qwen_image_client._wire_types import Picture
from qwen_image_contract import Task

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
    "ServerInfo",
    "ServerUnavailable",
    "ServerUnreachable",
    "Task",
    "Timeout",
    "load_recipe",
]

for _public in [globals()[_name] for _name in __all__]:
    if hasattr(_public, "__qualname__"):
        _public.__module__ = __name__  # where users import it from, for tracebacks and pickles
