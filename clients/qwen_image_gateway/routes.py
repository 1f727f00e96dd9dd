"""The routes: images generated and edited, chat, models and health.

The functions' names and docstrings are those of the OpenAPI document's operations.
"""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from qwen_image_gateway.backend import check_generates, service_of
from qwen_image_gateway.client_connection import cancel_on_disconnect
from qwen_image_gateway.middleware.request_log import REQUEST_ID, USER
from qwen_image_gateway.openapi import CHAT_BODY, EDIT_BODY, GENERATION_BODY, IMAGES_OR_EVENTS, error_responses
from qwen_image_gateway.requests.bodies import JSON_TYPE, read_json, validate
from qwen_image_gateway.requests.chat import read_chat
from qwen_image_gateway.requests.edits import read_edit
from qwen_image_gateway.requests.image_request import ImageRequest
from qwen_image_gateway.requests.images import check_images, convert_mask
from qwen_image_gateway.responses import ChatAnswer, Health, Model, Models, Pictures
from qwen_image_gateway.schemas import CHAT, EDITS, GENERATIONS, MODELS, EditFields, Fields, check_combinations
from qwen_image_gateway.sse import EventResponse, Kind, make_events

router = APIRouter()
_IMAGE_ERRORS = error_responses(400, 401, 404, 408, 413, 415, 422, 429, 502, 503, 504)


@router.post(
    GENERATIONS,
    response_model=Pictures,
    responses={**_IMAGE_ERRORS, **IMAGES_OR_EVENTS},
    openapi_extra=GENERATION_BODY,
)
async def generate(request: Request) -> Response:
    """Paints pictures from words."""
    fields = validate(Fields, await read_json(request), strict=True)
    check_combinations(fields)
    service = service_of(request)
    check_generates(await service.task(fields.model))
    image_request = ImageRequest.from_generation_fields(fields, service.settings.default_guidance)
    return await _respond(request, "image_generation", fields, image_request)


@router.post(
    EDITS,
    response_model=Pictures,
    responses={**_IMAGE_ERRORS, **IMAGES_OR_EVENTS},
    openapi_extra=EDIT_BODY,
)
async def edit(request: Request) -> Response:
    """Changes a picture, or makes one of several, as the prompt says."""
    service = service_of(request)
    sent = await read_edit(request, service.settings.max_picture_pixels)
    check_combinations(sent.fields)
    task = await service.task(sent.fields.model)
    mask = None if sent.mask is None else await asyncio.to_thread(convert_mask, sent.mask)
    guidance = service.settings.default_guidance
    image_request = ImageRequest.from_edit_fields(task, sent.fields, sent.images, mask, guidance)
    return await _respond(request, "image_edit", sent.fields, image_request)


@router.post(CHAT, response_model=ChatAnswer, responses=_IMAGE_ERRORS, openapi_extra=CHAT_BODY)
async def complete(request: Request) -> Response:
    """Answers a message with images."""
    service = service_of(request)
    sent = await read_chat(request)
    check_combinations(sent.fields)
    await asyncio.to_thread(check_images, sent.images, service.settings.max_picture_pixels)
    task, guidance = await service.task(sent.fields.model), service.settings.default_guidance
    if isinstance(sent.fields, EditFields):
        image_request = ImageRequest.from_edit_fields(task, sent.fields, sent.images, None, guidance)
    else:
        check_generates(task)
        image_request = ImageRequest.from_generation_fields(sent.fields, guidance)
    images = await _generate_images(request, sent.fields, image_request)
    answer = ChatAnswer.of(images, sent.fields.model or service.model_names(task)[0])
    return Response(answer.model_dump_json(), media_type=JSON_TYPE)


async def _respond(request: Request, kind: Kind, fields: Fields, image_request: ImageRequest) -> Response:
    if not fields.stream:
        images = await _generate_images(request, fields, image_request)
        return Response(images.model_dump_json(), media_type=JSON_TYPE)
    service = service_of(request)
    request.scope[USER] = fields.user
    previews = service.triton.stream(image_request, request.scope[REQUEST_ID])
    events = make_events(kind, fields, previews)
    return EventResponse(events, service.settings.keep_alive_s, service.settings.timeout_s)


async def _generate_images(request: Request, fields: Fields, image_request: ImageRequest) -> Pictures:
    """The images; their generation is cancelled if the client disconnects."""
    request.scope[USER] = fields.user

    async def generate() -> Pictures:
        images = await service_of(request).triton.generate(image_request, request.scope[REQUEST_ID])
        return await Pictures.of(images, fields)

    return await cancel_on_disconnect(request.receive, generate())


@router.get(MODELS, responses=error_responses(401, 503))
async def models(request: Request) -> Models:
    """The models served: one, by each of its names."""
    service = service_of(request)
    names = service.model_names(await service.task(None))
    return Models(data=[Model(id=name, created=service.started_s) for name in names])


@router.get(f"{MODELS}/{{model_id:path}}", responses=error_responses(401, 503, 404))
async def model(request: Request, model_id: str) -> Model:
    """One model, if it is the one served."""
    service = service_of(request)
    await service.task(model_id)
    return Model(id=model_id, created=service.started_s)


@router.get("/health")
async def live() -> Health:
    """Says yes while the gateway runs, whatever Triton does."""
    return Health(status="live")


@router.get("/health/ready", responses=error_responses(503))
async def ready(request: Request) -> Health:
    """Says yes when Triton has its model ready, and every model behind it."""
    await service_of(request).triton.check_ready()
    return Health(status="ready")
