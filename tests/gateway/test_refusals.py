"""What isn't allowed is told in OpenAI's shape: which field, what arrived, what to do."""

from __future__ import annotations

import gzip
import json
import urllib.error
import urllib.request

import httpx
import openai
import pytest

from tests.gateway.running import gateway_over
from tests.pictures import picture, png

PHOTO = png(picture(64, 64))
IMAGE = ("a.png", PHOTO)
NOT_THE_APIS = [
    ({"prompt": ""}, "prompt", "at least 1 character"),
    ({"n": 0}, "n", "greater than or equal to 1"),
    ({"n": 11}, "n", "less than or equal to 10"),
    ({"n": "2"}, "n", "valid integer"),
    ({"n": 2, "stream": True}, "n", "ask n times"),
    ({"size": "64"}, "size", "WIDTHxHEIGHT"),
    ({"response_format": "url", "stream": True}, "response_format", "hold b64_json"),
    ({"response_format": "file"}, "response_format", "'b64_json' or 'url'"),
    ({"output_format": "gif"}, "output_format", "'png', 'jpeg' or 'webp'"),
    ({"output_compression": 101, "output_format": "jpeg"}, "output_compression", "less than or equal to 100"),
    ({"quality": "best"}, "quality", "'high'"),
    ({"background": "transparent"}, "background", "no transparency"),
    ({"moderation": "off"}, "moderation", "'auto' or 'low'"),
    ({"partial_images": 4, "stream": True}, "partial_images", "less than or equal to 3"),
    ({"partial_images": 1}, "partial_images", "streams only"),
    ({"stream": "true"}, "stream", "valid boolean"),
    ({"guidance_scale": 3.5, "true_cfg_scale": 4, "negative_prompt": ""}, "guidance_scale", "send one of them"),
    ({"seed": -1}, "seed", "greater than or equal to 0"),
    ({"strength": 0.5}, "strength", "no field that is known"),
    ({"style": "pop art"}, "style", "'vivid' or 'natural'"),
    ({"styles": "vivid"}, "styles", "no field that is known"),
    ({"seed": 2**63 - 1, "n": 2}, "seed", "n=2: the last image would have seed 9223372036854775808"),
    ({"user": "x" * 300}, "user", "at most 256"),
]
BEYOND_THE_MODEL = [
    ({"prompt": " \n"}, "prompt", "is empty"),
    ({"prompt": "word " * 3000}, "prompt", "tokens"),
    ({"size": "65x64"}, "size", "width=65"),
    ({"size": "4096x64"}, "size", "width=4096"),
    ({"num_inference_steps": 201}, "num_inference_steps", "200"),
    ({"num_inference_steps": 201, "stream": True}, "num_inference_steps", "200"),
    ({"true_cfg_scale": 51, "negative_prompt": ""}, "true_cfg_scale", "50"),
    ({"true_cfg_scale": 1e300, "negative_prompt": ""}, "true_cfg_scale", "FP32"),
    ({"guidance_scale": 51}, "true_cfg_scale", "50"),
]


@pytest.mark.parametrize(
    ("status", "fields", "param", "words"),
    [*((400, *each) for each in NOT_THE_APIS), *((422, *each) for each in BEYOND_THE_MODEL)],
    ids=lambda value: str(value)[:40],
)
def test_a_field_that_is_not_allowed_is_named_with_what_is(gateway, status, fields, param, words):
    body = json.dumps({"prompt": "a star", **fields}).encode()
    answer = httpx.post(
        f"{gateway.url}/v1/images/generations", content=body, headers={"content-type": "application/json"}, timeout=60
    )
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (status, "invalid_request_error", param)
    assert words in error["message"]
    assert error["code"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "missing"),
        (b"{", "no JSON"),
        (b"[]", "JSON object, and is a list"),
        ('{"prompt": "一只狗"}'.encode("gbk"), "is no UTF-8"),
        ('{"prompt": "a star"}'.encode("utf-16"), "no UTF-8"),
        (b'{"prompt": NaN}', "prompt"),
        (b'{"seed": ' + b"9" * 5000 + b"}", "no JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"prompt": "a star", "seed": 1, "seed": 2}', "seed is given twice"),
    ],
)
def test_a_body_that_is_no_json_object_in_utf8_is_refused(gateway, body, words):
    answer = httpx.post(
        f"{gateway.url}/v1/images/generations", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/images/generations", "/v1/images/edits", "/v1/chat/completions"])
def test_a_compressed_body_is_refused_by_its_name(gateway, path):
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    answer = httpx.post(f"{gateway.url}{path}", content=gzip.compress(b'{"prompt": "a star"}'), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_encoding")


@pytest.mark.parametrize(
    ("status", "options", "param", "words"),
    [
        (400, {"extra_body": {"styles": "vivid"}}, "styles", "no field that is known"),
        (400, {"extra_body": {"stream": "perhaps"}}, "stream", "valid boolean"),
        (400, {"extra_body": {"strength": 2}}, "strength", "less than or equal to 1"),
        (400, {"extra_body": {"strength": "nan"}}, "strength", "finite"),
        (400, {"n": 11}, "n", "less than or equal to 10"),
        (400, {"image": b""}, "image", "empty"),
        (422, {"image": b"GIF89a"}, "image", "PNG"),
        (422, {"image": PHOTO[:-30]}, "image", "input_image 0"),
        (422, {"image": [PHOTO, PHOTO]}, "image", "starts from one"),
        (422, {"mask": b"no picture"}, "mask", "mask_image"),
        (404, {"model": "dall-e-2"}, "model", "isn't served"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_form_is_checked_as_strictly(client, status, options, param, words):
    with pytest.raises(openai.APIStatusError, match=words) as refused:
        client.images.edit(**{"image": PHOTO, "prompt": "a star", **options})
    assert (refused.value.status_code, refused.value.param) == (status, param)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"data": {"prompt": "a"}}, "must be multipart/form-data"),
        ({"data": {"prompt": "a"}, "files": {"other": IMAGE}}, "only image and mask are files"),
        ({"data": {"prompt": "a", "image": "http://127.0.0.1/a.png"}, "files": {"mask": IMAGE}}, "no data URL"),
        ({"data": {"prompt": "a", "image": "data:image/png;base64,?"}, "files": {"mask": IMAGE}}, "no base64"),
        ({"data": {"prompt": ["a", "b"]}, "files": {"image": IMAGE}}, "given twice"),
        ({"data": {}, "files": {"image": IMAGE}}, "prompt is missing"),
        ({"data": {"prompt": "a"}, "files": {"mask": IMAGE}}, "image is missing"),
        (
            {"data": {"prompt": "a"}, "files": [("image", IMAGE), *[("mask", ("m.png", PHOTO))] * 2]},
            "2 masks",
        ),
        ({"data": {"prompt": "一只狗".encode("gbk")}, "files": {"image": IMAGE}}, "prompt is no UTF-8"),
        ({"content": b"--x", "headers": {"content-type": "multipart/form-data"}}, "boundary"),
        ({"json": {"prompt": "a"}}, "image is missing"),
        ({"json": {"prompt": "a", "image": "https://127.0.0.1/a.png"}}, "no data URL"),
        ({"json": {"prompt": "a", "images": [{"file_id": "file-1"}]}}, "images must be a data URL"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_form_that_is_put_together_wrongly_is_refused(gateway, form, words):
    answer = httpx.post(f"{gateway.url}/v1/images/edits", **form)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/images", 404, "not_found"),
        ("GET", "/v1/images/generations", 405, "method_not_allowed"),
        ("GET", "/v1/models/dall-e-3", 404, "model_not_found"),
        ("POST", "/health", 405, "method_not_allowed"),
    ],
)
def test_other_paths_and_methods_are_errors_of_the_same_shape(gateway, method, path, status, code):
    answer = httpx.request(method, f"{gateway.url}{path}")
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code
    assert ("allow" in answer.headers) == (status == 405)


def test_while_triton_is_not_there_the_gateway_lives_and_says_so(tmp_path):
    with gateway_over("localhost:9", tmp_path) as gateway, gateway.client() as client:
        with urllib.request.urlopen(f"{gateway.url}/health", timeout=10) as answer:
            assert json.load(answer) == {"status": "live"}
        with pytest.raises(urllib.error.HTTPError) as not_ready:
            urllib.request.urlopen(f"{gateway.url}/health/ready", timeout=30)
        assert not_ready.value.code == 503
        assert not_ready.value.headers["retry-after"] == "1"
        not_ready.value.close()
        with pytest.raises(openai.InternalServerError, match="Triton can't be asked") as refused:
            client.images.generate(prompt="a star")
        assert (refused.value.status_code, refused.value.code) == (503, "not_ready")
