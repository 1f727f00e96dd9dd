"""Signs of life, of the gateway and of Triton."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel

from qwen_image_gateway.documents import errors
from qwen_image_gateway.service import service_of

router = APIRouter()


class Health(BaseModel):
    """How it stands."""

    status: str


@router.get("/health")
async def live() -> Health:
    """Says yes while the gateway runs, whatever Triton does."""
    return Health(status="live")


@router.get("/health/ready", responses=errors(503))
async def ready(request: Request) -> Health:
    """Says yes when Triton has its model ready, and every model behind it."""
    await service_of(request).triton.check_ready()
    return Health(status="ready")
