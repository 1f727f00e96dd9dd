"""The page to play on, beside the gateway's routes."""

from __future__ import annotations

from fastapi import FastAPI

from qwen_image_gateway.settings import GatewaySettings, SettingsError


def mount_page(app: FastAPI, settings: GatewaySettings) -> FastAPI:
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
    return qwen_image_page.mount(app, settings.url, default_guidance=settings.default_guidance)
