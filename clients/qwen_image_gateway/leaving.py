"""Work that ends with the connection of whoever asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from qwen_image_gateway.errors import ApiError

Result = TypeVar("Result")
CLIENT_CLOSED_REQUEST = 499  # nginx's; nobody is there to read it but metrics and the log


async def unless_caller_leaves(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """The work's result. If the connection closes first, the work is cancelled, which ends it in Triton, too.

    The request's body must have been read.

    Raises:
        ApiError: the caller left.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise caller_left()
    finally:
        await _end(working, leaving)


def caller_left() -> ApiError:
    """The answer to nobody."""
    return ApiError(CLIENT_CLOSED_REQUEST, "the connection was closed", "caller_left")


def not_read() -> ApiError:
    """The answer to one who doesn't read the answer."""
    return ApiError(CLIENT_CLOSED_REQUEST, "the answer wasn't read", "answer_not_read")


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
