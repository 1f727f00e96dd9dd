"""The model that is served: one, named after its ensemble in Triton."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel

from qwen_image_gateway.documents import errors
from qwen_image_gateway.service import service_of
from qwen_image_gateway.triton import MODELS

router = APIRouter(responses=errors(401, 503))


class Model(BaseModel):
    """One model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "qwen-image-triton"


class Models(BaseModel):
    """All models."""

    object: Literal["list"] = "list"
    data: list[Model]


@router.get("/v1/models")
async def models(request: Request) -> Models:
    """The models served: one."""
    return Models(data=[await _model(request, None)])


@router.get("/v1/models/{model_id}", responses=errors(404))
async def model(request: Request, model_id: str) -> Model:
    """One model, if it is the one served."""
    return await _model(request, model_id)


async def _model(request: Request, name: str | None) -> Model:
    service = service_of(request)
    return Model(id=MODELS.unary(await service.task(name)), created=service.began_s)
