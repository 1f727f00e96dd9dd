"""Pictures: painted from words, and changed."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from qwen_image_gateway import orders
from qwen_image_gateway.answers import Pictures, pictures_of
from qwen_image_gateway.bodies import read_json, validated
from qwen_image_gateway.documents import EDIT_BODY, GENERATION_BODY, PICTURES_OR_EVENTS, errors
from qwen_image_gateway.edits import read_edit
from qwen_image_gateway.events import Kind, events_of
from qwen_image_gateway.fields import Fields, check_together
from qwen_image_gateway.leaving import unless_caller_leaves
from qwen_image_gateway.limits import EDITS, GENERATIONS
from qwen_image_gateway.masks import grey_mask
from qwen_image_gateway.observing import REQUEST_ID, USER
from qwen_image_gateway.orders import Order
from qwen_image_gateway.service import check_paints, service_of
from qwen_image_gateway.streaming import EventResponse

IMAGE_ERRORS = (400, 401, 404, 408, 413, 415, 422, 429, 502, 503, 504)
router = APIRouter(responses=errors(*IMAGE_ERRORS))


@router.post(GENERATIONS, response_model=Pictures, responses=PICTURES_OR_EVENTS, openapi_extra=GENERATION_BODY)
async def generate(request: Request) -> Response:
    """Paints pictures from words."""
    fields = validated(Fields, await read_json(request), strict=True)
    check_together(fields)
    service = service_of(request)
    check_paints(await service.task(fields.model))
    order = orders.generation(fields, service.settings.default_guidance)
    return await _answer(request, "image_generation", fields, order)


@router.post(EDITS, response_model=Pictures, responses=PICTURES_OR_EVENTS, openapi_extra=EDIT_BODY)
async def edit(request: Request) -> Response:
    """Changes a picture, or makes one of several, as the prompt says."""
    service = service_of(request)
    read = await read_edit(request, service.settings.max_picture_pixels)
    check_together(read.fields)
    task = await service.task(read.fields.model)
    mask = None if read.mask is None else await asyncio.to_thread(grey_mask, read.mask)
    order = orders.edit(task, read.fields, read.pictures, mask, service.settings.default_guidance)
    return await _answer(request, "image_edit", read.fields, order)


async def _answer(request: Request, kind: Kind, fields: Fields, order: Order) -> Response:
    if not fields.stream:
        pictures = await generated(request, fields, order)
        return Response(pictures.model_dump_json(), media_type="application/json")
    service = service_of(request)
    request.scope[USER] = fields.user
    previews = service.triton.previews(order, request.scope[REQUEST_ID])
    events = events_of(kind, fields, order.preview_every, previews)
    return EventResponse(events, service.settings.keep_alive_s, service.settings.timeout_s)


async def generated(request: Request, fields: Fields, order: Order) -> Pictures:
    """The order's pictures; it is cancelled if the caller leaves."""
    request.scope[USER] = fields.user

    async def generate() -> Pictures:
        return await pictures_of(await service_of(request).triton.images(order, request.scope[REQUEST_ID]), fields)

    return await unless_caller_leaves(request.receive, generate())
