"""What is in work in Triton for this gateway: how many bytes of pictures, and whether anything is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from qwen_image_gateway.errors import ApiError
from qwen_image_gateway.orders import Order


class InWork:
    """On one event loop. `max_bytes` bounds the pictures that come with orders."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._orders = 0
        self._has_none = asyncio.Event()
        self._has_none.set()

    @contextmanager
    def holding(self, order: Order) -> Iterator[None]:
        """Counts the order while it is in work.

        Raises:
            ApiError: its pictures are too many bytes, by themselves (413) or beside those in work (429).
        """
        self._check_room(order.picture_bytes)
        self._bytes += order.picture_bytes
        self._orders += 1
        self._has_none.clear()
        try:
            yield
        finally:
            self._bytes -= order.picture_bytes
            self._orders -= 1
            if self._orders == 0:
                self._has_none.set()

    async def wait_until_none(self, within_s: float) -> None:
        """Returns when nothing is in work any more, or after that time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._has_none.wait(), within_s)

    def _check_room(self, wanted: int) -> None:
        if wanted > self._max_bytes:
            raise ApiError(
                413,
                f"{wanted} bytes of pictures would be sent to Triton, and at most {self._max_bytes} are: each file is "
                "sent once for every picture made of it, so ask for fewer at a time, or send smaller files",
                "picture_too_large",
                "image",
            )
        if self._bytes + wanted > self._max_bytes:
            words = (
                f"{self._bytes} bytes of pictures are in work, and at most {self._max_bytes} are: send it again later"
            )
            raise ApiError(429, words, "gateway_busy")
