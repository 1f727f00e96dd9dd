"""Images by chat."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from qwen_image_gateway import orders
from qwen_image_gateway.bodies import read_json
from qwen_image_gateway.chat import chat_request
from qwen_image_gateway.chat_answers import ChatAnswer
from qwen_image_gateway.documents import CHAT_BODY, errors
from qwen_image_gateway.fields import EditFields, check_together
from qwen_image_gateway.limits import CHAT
from qwen_image_gateway.pictures import check_pictures
from qwen_image_gateway.routes.images import IMAGE_ERRORS, generated
from qwen_image_gateway.service import check_paints, service_of

router = APIRouter(responses=errors(*IMAGE_ERRORS))


@router.post(CHAT, response_model=ChatAnswer, openapi_extra=CHAT_BODY)
async def complete(request: Request) -> Response:
    """Answers a message with images."""
    service = service_of(request)
    read = await asyncio.to_thread(chat_request, await read_json(request))
    check_together(read.fields)
    await asyncio.to_thread(check_pictures, read.pictures, service.settings.max_picture_pixels)
    task, guidance = await service.task(read.fields.model), service.settings.default_guidance
    if isinstance(read.fields, EditFields):
        order = orders.edit(task, read.fields, read.pictures, None, guidance)
    else:
        check_paints(task)
        order = orders.generation(read.fields, guidance)
    answer = ChatAnswer.of(await generated(request, read.fields, order), read.fields.model or service.names_of(task)[0])
    return Response(answer.model_dump_json(), media_type="application/json")
