"""The model that is served: one, named after its ensemble in Triton, and whatever else the settings call it."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel

from qwen_image_gateway.documents import errors
from qwen_image_gateway.service import service_of

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
    """The models served: one, by each of its names."""
    service = service_of(request)
    names = service.names_of(await service.task(None))
    return Models(data=[Model(id=name, created=service.began_s) for name in names])


@router.get("/v1/models/{model_id:path}", responses=errors(404))
async def model(request: Request, model_id: str) -> Model:
    """One model, if it is the one served."""
    service = service_of(request)
    await service.task(model_id)
    return Model(id=model_id, created=service.began_s)
