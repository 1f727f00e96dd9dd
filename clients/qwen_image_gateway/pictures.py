"""Pictures as they come in, and as they go out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from io import BytesIO

from PIL import Image

from qwen_image_client import GeneratedImage
from qwen_image_client.integration import encode_lossy
from qwen_image_gateway.errors import ApiError, invalid
from qwen_image_gateway.fields import OutputFormat

READ = ("PNG", "JPEG", "WEBP")  # what Triton reads: nothing else is opened, whatever Pillow could
_BEST = 100


def check_picture(name: str, content: bytes, max_pixels: int) -> None:
    """Looks at a picture's header. What isn't readable is left to Triton, which says what it is and what is allowed.

    Raises:
        ApiError: it is empty, which to Triton means that there is none, or has too many pixels.
    """
    if not content:
        raise invalid(f"{name} is an empty file", name)
    size = _size(content)
    if size is not None and size[0] * size[1] > max_pixels:
        raise ApiError(
            413,
            f"{name} has {size[0]} x {size[1]} pixels, at most {max_pixels} in all are taken: send it smaller",
            "picture_too_large",
            name,
        )


def check_pictures(contents: Iterable[bytes], max_pixels: int, name: str = "image") -> None:
    """Each as `check_picture` does; not on the event loop: a PNG's header may hold 64 MiB of packed text."""
    for content in contents:
        check_picture(name, content, max_pixels)


def _size(content: bytes) -> tuple[int, int] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # nothing is decoded here
        try:
            with Image.open(BytesIO(content), formats=READ) as picture:
                return picture.size
        except Image.DecompressionBombError as error:
            raise ApiError(413, f"a picture is far too large: {error}", "picture_too_large") from error
        except (OSError, ValueError, SyntaxError):
            return None


def encoded(image: GeneratedImage, file_format: OutputFormat, quality: int | None) -> bytes:
    """The picture as a file that holds its recipe."""
    if file_format == "png" or image.image is None:
        return image.to_png()
    return encode_lossy(image.image, image.recipe, file_format.upper(), _BEST if quality is None else quality)
