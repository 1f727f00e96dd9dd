"""The gateway as a FastAPI application."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.middleware.cors import CORSMiddleware

from qwen_image_gateway.documents import completed
from qwen_image_gateway.error_answers import answer_errors
from qwen_image_gateway.keys import Keys, KeysAsked
from qwen_image_gateway.limits import Limits
from qwen_image_gateway.metrics import Metrics
from qwen_image_gateway.observing import REQUEST_ID, Observed
from qwen_image_gateway.origins import SameOrigin
from qwen_image_gateway.page import mount_page
from qwen_image_gateway.routes import chat, health, images, models
from qwen_image_gateway.service import Service
from qwen_image_gateway.settings import GatewaySettings
from qwen_image_gateway.tracing import Tracing
from qwen_image_gateway.triton import Triton, address_of

_log = logging.getLogger("qwen_image_gateway")


def create_app(settings: GatewaySettings) -> FastAPI:
    """The application; it connects to Triton when it is first asked.

    Raises:
        SettingsError: the settings can't be used here.
    """
    address_of(settings.url)
    keys = None if settings.api_keys is None else Keys(settings.api_keys)
    tracing, metrics = Tracing.to(settings.otlp_endpoint), Metrics()
    app = FastAPI(
        title="Qwen-Image gateway",
        version="0.1.0",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(settings, tracing),
    )
    for routes in (images, chat, models, health):
        app.include_router(routes.router)
    app.add_route("/metrics", metrics.answer, methods=["GET"], include_in_schema=False)
    answer_errors(app, settings.retry_after_s)
    _document(app, settings)
    _add_middleware(app, settings, keys, metrics)
    tracing.watch(app)
    if settings.page:
        mount_page(app, settings)
    return app


def _add_middleware(app: FastAPI, settings: GatewaySettings, keys: Keys | None, metrics: Metrics) -> None:
    """From the innermost to the outermost."""
    app.add_middleware(Limits, settings=settings)
    if keys is not None:
        app.add_middleware(KeysAsked, keys=keys, retry_after_s=settings.retry_after_s)
    app.add_middleware(
        SameOrigin,
        hosts=settings.allowed_hosts or ("*",),
        origins=settings.cors_origins,
        retry_after_s=settings.retry_after_s,
    )
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],  # OpenAI's own client for browsers sends a dozen; it is the origin that is checked
            expose_headers=[REQUEST_ID, "retry-after"],
        )
    app.add_middleware(
        Observed, metrics=metrics, retry_after_s=settings.retry_after_s, log_addresses=settings.log_addresses
    )


def _lifespan(settings: GatewaySettings, tracing: Tracing) -> Any:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        triton = Triton(settings, tracing)
        app.state.service = Service(settings, triton, began_s=int(time.time()))
        _log.info("asking Triton at %s", settings.url)
        try:
            yield
        finally:
            await triton.close()
            tracing.close()

    return lifespan


def _document(app: FastAPI, settings: GatewaySettings) -> None:
    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            guidance = f"Guidance is {settings.default_guidance} where a request sends no negative prompt and no scale."
            document = get_openapi(title=app.title, version=app.version, description=guidance, routes=app.routes)
            app.openapi_schema = completed(document, has_keys=settings.api_keys is not None)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
