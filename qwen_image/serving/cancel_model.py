"""Ends a request that is queued or running, by its request id; and the whole server when a process died or hangs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from qwen_image.errors import InvalidRequest
from qwen_image.request.cancellation import LONGEST_REQUEST_ID, cancel_everywhere, sockets_folder
from qwen_image.serving.backend import ModelSettings, error_response, log_request
from qwen_image.serving.tensors import response, text_column
from qwen_image.serving.watchdog import Watchdog


class CancelModel:
    """Asks every sampler process of this server. Light and always there, so the watchdog lives here too."""

    def initialize(self, args: Mapping[str, str]) -> None:
        self._folder = sockets_folder()
        settings = ModelSettings.from_args(args)
        self._watchdog: Watchdog | None = None
        if settings["watchdog"] == "on":
            hangs_after_s = float(settings["watchdog_hangs_after_s"])
            self._watchdog = Watchdog(self._folder, os.getppid(), hangs_after_s=hangs_after_s)

    def finalize(self) -> None:
        if self._watchdog is not None:
            self._watchdog.close()

    def execute(self, requests: list[Any]) -> list[Any]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        try:
            request_id = (text_column(request, "request_id") or [""])[0]
            if not request_id or "\n" in request_id or len(request_id.encode()) > LONGEST_REQUEST_ID:
                raise InvalidRequest(
                    f"request_id={request_id[:80]!r} must be the id of a request: one line of 1 to "
                    f"{LONGEST_REQUEST_ID} bytes"
                )
            cancelled = cancel_everywhere(request_id, self._folder)
            log_request(request_id, f"cancelled: {cancelled} images")
            return response(cancelled=np.array([cancelled], np.int32))
        except Exception as error:
            return error_response(error, request.request_id())
