"""The gateway as a FastAPI application."""

from __future__ import annotations

from fastapi import FastAPI

from qwen_image_gateway.settings import GatewaySettings, SettingsError


def create_app(settings: GatewaySettings) -> FastAPI:
    """The application; it connects to Triton when it is first asked.

    Raises:
        SettingsError: the settings can't be used here.
    """
    app = FastAPI(title="Qwen-Image gateway", docs_url=None, redoc_url=None)
    if settings.page:
        mount_page(app, settings.url)
    return app


def mount_page(app: FastAPI, url: str) -> FastAPI:
    """Adds the page, which needs more than the gateway does."""
    try:
        import qwen_image_page
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("gradio", "qwen_image_page"):
            raise
        raise SettingsError(
            f"the page needs {error.name}, which isn't installed: pip install 'qwen-image-triton[page]'"
        ) from error
    return qwen_image_page.mount(app, url)
