"""Pictures: painted from words, and changed."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from qwen_image_gateway import orders
from qwen_image_gateway.answers import Pictures, pictures_of
from qwen_image_gateway.documents import EDIT_BODY, PICTURES_OR_EVENTS, errors
from qwen_image_gateway.events import Kind, events_of
from qwen_image_gateway.fields import Fields, GenerationFields, check_together
from qwen_image_gateway.forms import read_form
from qwen_image_gateway.leaving import unless_caller_leaves
from qwen_image_gateway.limits import EDITS, GENERATIONS
from qwen_image_gateway.masks import grey_mask
from qwen_image_gateway.observing import REQUEST_ID, USER
from qwen_image_gateway.orders import Order
from qwen_image_gateway.service import check_paints, service_of
from qwen_image_gateway.streaming import EventResponse

router = APIRouter(responses=errors(400, 401, 404, 408, 413, 422, 429, 502, 503, 504))


@router.post(GENERATIONS, response_model=Pictures, responses=PICTURES_OR_EVENTS)
async def generate(request: Request, fields: GenerationFields) -> Response:
    """Paints pictures from words."""
    check_together(fields)
    service = service_of(request)
    check_paints(await service.task(fields.model))
    order = orders.generation(fields, service.settings.default_guidance)
    return await _answer(request, "image_generation", fields, order)


@router.post(EDITS, response_model=Pictures, responses=PICTURES_OR_EVENTS, openapi_extra=EDIT_BODY)
async def edit(request: Request) -> Response:
    """Changes a picture, or makes one of several, as the prompt says."""
    service = service_of(request)
    form = await read_form(request, service.settings.max_picture_pixels)
    check_together(form.fields)
    task = await service.task(form.fields.model)
    mask = None if form.mask is None else await asyncio.to_thread(grey_mask, form.mask)
    order = orders.edit(task, form.fields, form.pictures, mask, service.settings.default_guidance)
    return await _answer(request, "image_edit", form.fields, order)


async def _answer(request: Request, kind: Kind, fields: Fields, order: Order) -> Response:
    service, request_id = service_of(request), request.scope[REQUEST_ID]
    if fields.user is not None:
        request.scope[USER] = fields.user
    if fields.stream:
        previews = service.triton.previews(order, request_id)
        events = events_of(kind, fields, order.preview_every, previews)
        return EventResponse(events, service.settings.keep_alive_s, service.settings.timeout_s)

    async def paint() -> Pictures:
        return await pictures_of(await service.triton.images(order, request_id), fields)

    pictures = await unless_caller_leaves(request.receive, paint())
    return Response(pictures.model_dump_json(), media_type="application/json")
