"""What people's tools send is served: fields that change nothing, files as text, images by chat."""

from __future__ import annotations

import base64
import io

import httpx
import pytest
from PIL import Image

from tests.pictures import picture, png

SHORT = {"size": "64x64", "num_inference_steps": 1}
EDIT = {"prompt": "a star", "strength": 0.5, "num_inference_steps": 2, "seed": 5}
PHOTO = png(picture(64, 64))
DATA_URL = "data:image/png;base64," + base64.b64encode(PHOTO).decode()
OF_TOOLS = {
    "openai, gpt-image-1": {"quality": "medium", "background": "opaque", "moderation": "low"},
    "openai, dall-e-3": {"quality": "hd", "style": "natural", "response_format": "b64_json"},
    "Open WebUI": {"n": 1, "response_format": "b64_json"},
    "LibreChat": {"n": 1, "quality": "auto", "background": "auto", "output_format": "png", "user": "someone"},
    "LibreChat, DALL-E": {"n": 1, "quality": "standard", "style": "vivid"},
    "n8n": {"n": 1, "quality": "standard", "style": "vivid", "response_format": "url"},
    "capital letters": {"output_format": "PNG", "output_compression": 90},
    "null": {"style": None, "quality": None, "user": None, "bot_task": None, "output_compression": 100, "n": None},
    "vLLM-Omni": {"vae_use_slicing": False, "vae_use_tiling": True, "true_cfg_scale": None, "bot_task": "image"},
    "SGLang": {"generator_device": "cuda", "input_fidelity": "high", "safety_identifier": "someone"},
}


def content(url: str) -> Image.Image:
    head, data = url.split(",")
    assert head.startswith("data:image/")
    return Image.open(io.BytesIO(base64.b64decode(data)))


def post(gateway, path: str, **body) -> httpx.Response:
    answer = httpx.post(f"{gateway.url}/v1/{path}", timeout=60, **body)
    assert answer.status_code == 200, answer.text
    return answer


@pytest.mark.parametrize("fields", OF_TOOLS.values(), ids=OF_TOOLS)
def test_fields_that_change_nothing_are_accepted(gateway, fields):
    post(gateway, "images/generations", json={"prompt": "a star", **SHORT, **fields})
    texts = {name: str(value) for name, value in fields.items() if value is not None}
    post(gateway, "images/edits", data={"prompt": "a star", **SHORT, **texts}, files={"image": PHOTO})


@pytest.mark.parametrize(("name", "file_format"), [("jpg", "JPEG"), ("PNG", "PNG"), ("WebP", "WEBP")])
def test_a_url_is_one_that_holds_the_file(client, name, file_format):
    answer = client.images.generate(
        prompt="a star",
        size="64x64",
        response_format="url",
        output_format=name,
        extra_body={"num_inference_steps": 1},
    )
    assert answer.data[0].b64_json is None
    with content(answer.data[0].url) as image:
        assert (image.format, image.size) == (file_format, (64, 64))


@pytest.mark.parametrize(
    "pictures",
    [
        {"image": DATA_URL},
        {"images": [{"image_url": DATA_URL}], "mask": {"image_url": DATA_URL}},
        {"image": [DATA_URL.partition(",")[2]], "mask": None},
    ],
    ids=lambda pictures: str(pictures)[:30],
)
def test_pictures_may_come_as_text_in_json(gateway, pictures):
    answer = post(gateway, "images/edits", json={**EDIT, **pictures})
    (made,) = answer.json()["data"]
    assert (made["recipe"]["strength"], made["seed"]) == (0.5, 5)


@pytest.mark.parametrize(
    "parts",
    [
        [("url", (None, DATA_URL))],
        [("image[]", (None, DATA_URL)), ("stream", (None, "False"))],
        [("image[]", ("a.png", PHOTO)), ("mask", ("", b""))],
        [("image", ("a.png", PHOTO)), ("mask[]", ("m.png", PHOTO))],
    ],
    ids=lambda parts: str(parts)[:30],
)
def test_pictures_may_come_as_text_in_a_form_and_masks_may_be_empty(gateway, parts):
    texts = [(name, (None, str(value))) for name, value in EDIT.items()]
    (made,) = post(gateway, "images/edits", files=[*parts, *texts]).json()["data"]
    assert (made["recipe"]["strength"], made["seed"]) == (0.5, 5)


def test_a_stream_may_be_asked_for_as_python_writes_it(gateway):
    fields = {"prompt": "a star", "stream": "True", "num_inference_steps": "2"}
    answer = httpx.post(f"{gateway.url}/v1/images/edits", data=fields, files={"image": PHOTO}, timeout=60)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "event: image_edit.completed" in answer.text


def test_a_picture_that_comes_twice_counts_twice(gateway):
    parts = [("url", (None, DATA_URL)), ("url", (None, DATA_URL)), ("prompt", (None, "a star"))]
    answer = httpx.post(f"{gateway.url}/v1/images/edits", files=parts, timeout=60)
    assert answer.status_code == 422
    assert "2 pictures" in answer.json()["error"]["message"]


@pytest.mark.parametrize("nested", [True, False])
def test_a_chat_is_answered_with_images(gateway, nested):
    options = {"height": 64, "width": 128, "num_inference_steps": 1, "seed": 7, "num_outputs_per_prompt": 2}
    message = {"role": "user", "content": "a star"}
    body = {"messages": [message], "temperature": 0.7, **({"extra_body": options} if nested else options)}
    answer = post(gateway, "chat/completions", json=body).json()
    (choice,) = answer["choices"]
    images = [content(part["image_url"]["url"]) for part in choice["message"]["content"]]
    assert [image.size for image in images] == [(128, 64)] * 2
    assert answer["usage"]["completion_tokens"] == 2 * 8 * 4


def test_a_chat_with_a_picture_starts_from_it_and_openais_client_reads_the_answer(client):
    parts = [{"type": "text", "text": "a star"}, {"type": "image_url", "image_url": {"url": DATA_URL}}]
    answer = client.chat.completions.create(
        model="qwen_image",
        messages=[{"role": "user", "content": parts}],
        extra_body={"num_inference_steps": 4, "strength": 0.5},
    )
    (part,) = answer.choices[0].message.content
    with content(part["image_url"]["url"]) as image:
        assert "a star" in str(image.text)
        assert image.size == (128, 128)


CHATS = [
    ([], {}, "0 messages"),
    ([{"role": "system", "content": "paint"}, {"role": "user", "content": "a"}], {}, "2 messages"),
    ([{"role": "user", "content": [{"type": "input_audio"}]}], {}, "a part of a message"),
    ([{"role": "user", "content": "a"}], {"stream": True}, "chat isn't streamed"),
    ([{"role": "user", "content": "a"}], {"seed": 1, "extra_body": {"seed": 2}}, "seed is given twice"),
    ([{"role": "user", "content": "a"}], {"height": 64}, "send both"),
    ([{"role": "user", "content": "a"}], {"strength": 0.5}, "strength is no field"),
    ([{"role": "user", "content": "a"}], {"tools": []}, "tools is no field"),
]


@pytest.mark.parametrize(("messages", "fields", "words"), CHATS)
def test_a_chat_that_asks_for_more_is_refused(gateway, messages, fields, words):
    answer = httpx.post(f"{gateway.url}/v1/chat/completions", json={"messages": messages, **fields}, timeout=60)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
