"""The gateway as a FastAPI application."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from qwen_image_gateway.backend import Service, Triton, parse_url
from qwen_image_gateway.errors import add_error_handlers
from qwen_image_gateway.middleware.access import ApiKeyMiddleware, ApiKeys, SameOriginMiddleware
from qwen_image_gateway.middleware.concurrency_limit import ConcurrencyLimitMiddleware
from qwen_image_gateway.middleware.request_log import REQUEST_ID, RequestLogMiddleware
from qwen_image_gateway.openapi import document_app
from qwen_image_gateway.routes import router
from qwen_image_gateway.schemas import METRICS
from qwen_image_gateway.settings import GatewaySettings, SettingsError
from qwen_image_gateway.telemetry import GatewayMetrics, Tracing

_log = logging.getLogger("qwen_image_gateway")


def create_app(settings: GatewaySettings) -> FastAPI:
    """The application. It connects to Triton at the first request.

    Raises:
        SettingsError: the settings can't be used here.
    """
    parse_url(settings.url)
    keys = None if settings.api_keys is None else ApiKeys(settings.api_keys)
    tracing, metrics = Tracing.to_endpoint(settings.otlp_endpoint), GatewayMetrics()
    app = FastAPI(
        title="Qwen-Image gateway",
        version="0.1.0",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan(settings, tracing),
    )
    app.include_router(router)
    app.add_route(METRICS, metrics.respond, methods=["GET"], include_in_schema=False)
    add_error_handlers(app, settings.retry_after_s)
    document_app(app, settings)
    _add_middleware(app, settings, keys, metrics)
    tracing.instrument(app)
    if settings.page:
        _mount_page(app, settings)
    return app


def _add_middleware(app: FastAPI, settings: GatewaySettings, keys: ApiKeys | None, metrics: GatewayMetrics) -> None:
    """From the innermost to the outermost."""
    app.add_middleware(ConcurrencyLimitMiddleware, settings=settings)
    if keys is not None:
        app.add_middleware(ApiKeyMiddleware, keys=keys, retry_after_s=settings.retry_after_s)
    app.add_middleware(
        SameOriginMiddleware,
        hosts=settings.allowed_hosts or ("*",),
        origins=settings.cors_origins,
        retry_after_s=settings.retry_after_s,
    )
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],  # OpenAI's own client for browsers sends a dozen; the origin is what is checked
            expose_headers=[REQUEST_ID, "retry-after"],
        )
    app.add_middleware(
        RequestLogMiddleware,
        metrics=metrics,
        retry_after_s=settings.retry_after_s,
        log_addresses=settings.log_addresses,
    )


def _lifespan(settings: GatewaySettings, tracing: Tracing) -> Any:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        triton = Triton(settings, tracing)
        app.state.service = Service(settings, triton, started_s=int(time.time()))
        _log.info("asking Triton at %s", settings.url)
        try:
            yield
        finally:
            await triton.close()
            tracing.close()

    return lifespan


def _mount_page(app: FastAPI, settings: GatewaySettings) -> None:
    """Adds the page, which needs more packages than the gateway does.

    Raises:
        SettingsError: they aren't installed.
    """
    try:
        import qwen_image_page
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("gradio", "qwen_image_page"):
            raise
        raise SettingsError(
            f"the page needs {error.name}, which isn't installed: pip install '.[gateway,page]' in its source"
        ) from error
    qwen_image_page.mount(app, settings.url, default_guidance=settings.default_guidance)
