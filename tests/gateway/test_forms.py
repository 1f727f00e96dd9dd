"""Forms as they come over the wire: whole, and in UTF-8, or refused."""

from __future__ import annotations

import httpx
import pytest

from tests.pictures import picture, png

BOUNDARY = "b0undary"
IMAGE = b'name="image"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n' + png(picture(64, 64))
PROMPT = b'name="prompt"\r\n\r\na star'
STEPS = b'name="num_inference_steps"\r\n\r\n1'
CLOSING = f"--{BOUNDARY}--\r\n".encode()


def form(*parts: bytes, closing: bytes = CLOSING) -> bytes:
    start = f"--{BOUNDARY}\r\nContent-Disposition: form-data; ".encode()
    return b"".join(start + part + b"\r\n" for part in parts) + closing


def send(gateway, body: bytes) -> httpx.Response:
    headers = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
    return httpx.post(f"{gateway.url}/v1/images/edits", content=body, headers=headers, timeout=60)


def test_a_whole_form_is_served_also_with_words_after_its_end(gateway):
    assert send(gateway, form(IMAGE, PROMPT, STEPS)).status_code == 200
    assert send(gateway, form(IMAGE, PROMPT, STEPS, closing=CLOSING + b"and so on")).status_code == 200


@pytest.mark.parametrize("closing", [b"", b"--b0un", f"--{BOUNDARY}\r\n".encode(), f"--{BOUNDARY}-".encode()])
def test_a_form_that_is_cut_off_is_refused(gateway, closing):
    answer = send(gateway, form(IMAGE, PROMPT, STEPS, closing=closing))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_form")


@pytest.mark.parametrize(
    ("part", "param", "words"),
    [
        (b'name="prompt"\r\n\r\n' + "一只狗".encode("gbk"), "prompt", "prompt is no UTF-8"),
        (b'name="prompt"\r\nContent-Type: text/plain; charset=gbk\r\n\r\na dog', "prompt", "sent in gbk"),
        (b'name="image"; filename="' + "狗".encode("gbk") + b'.png"\r\n\r\nx', "the file name of image", "no UTF-8"),
        (b'name="' + "狗".encode("gbk") + b'"\r\n\r\nx', "a field's name", "no UTF-8"),
    ],
)
def test_text_that_is_no_utf8_is_named(gateway, part, param, words):
    answer = send(gateway, form(IMAGE, part, STEPS))
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param)
    assert words in error["message"]


def test_a_charset_that_is_utf8_is_taken(gateway):
    prompt = b'name="prompt"\r\nContent-Type: text/plain; charset=UTF-8\r\n\r\n' + "一只狗".encode()
    answer = send(gateway, form(IMAGE, prompt, STEPS))
    assert answer.json()["data"][0]["recipe"]["prompt"] == "一只狗"
