"""Forms as they come over the wire: whole, and in UTF-8, or refused."""

from __future__ import annotations

import httpx
import pytest

from tests.pictures import picture, png

BOUNDARY = "b0undary"
IMAGE = b'name="image"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n' + png(picture(64, 64))
PROMPT = b'name="prompt"\r\n\r\na star'
STEPS = b'name="num_inference_steps"\r\n\r\n1'
FIELDS = {"prompt": "a star", "num_inference_steps": 1}
GBK = "一只狗".encode("gbk")
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
        (b'name="prompt"\r\n\r\n' + GBK, "prompt", "prompt is no UTF-8"),
        (
            b'name="prompt"\r\nContent-Type: text/plain; charset=gbk\r\n\r\n' + "一只狗".encode("gbk"),
            "prompt",
            "sent in gbk",
        ),
        (b'name="prompt"\r\nContent-Type: text/plain; charset=utf-16\r\n\r\na dog', "prompt", "sent in utf-16"),
        (b'name="prompt"\r\nContent-Transfer-Encoding: base64\r\n\r\nYSBkb2c=', "prompt", "base64"),
        (b'name="prompt"\r\nContent-Disposition: form-data; name="user"\r\n\r\na dog', "user", "two headers"),
        (b'name="image"; filename="' + "狗".encode("gbk") + b'.png"\r\n\r\nx', "the file name of image", "no UTF-8"),
        (b'name="' + "狗".encode("gbk") + b'"\r\n\r\nx', "a field's name", "no UTF-8"),
    ],
)
def test_text_that_would_be_read_otherwise_than_it_was_meant_is_named(gateway, part, param, words):
    answer = send(gateway, form(IMAGE, part, STEPS))
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param)
    assert words in error["message"]


@pytest.mark.parametrize(("charset", "text"), [("UTF-8", "一只狗"), ("ISO-8859-1", "a dog"), ("us-ascii", "a dog")])
def test_a_charset_in_which_the_text_is_the_same_is_taken(gateway, charset, text):
    prompt = f'name="prompt"\r\nContent-Type: text/plain; charset={charset}\r\n\r\n{text}'.encode()
    answer = send(gateway, form(IMAGE, prompt, STEPS))
    assert answer.json()["data"][0]["recipe"]["prompt"] == text


@pytest.mark.parametrize(("charset", "status"), [("gbk", 400), ("utf-16", 400), ("nonsense", 400), ("utf-8", 200)])
def test_a_form_names_no_other_charset(gateway, charset, status):
    headers = {"content-type": f"multipart/form-data; charset={charset}; boundary={BOUNDARY}"}
    body = form(IMAGE, 'name="prompt"\r\n\r\n一只狗'.encode(), STEPS)
    assert httpx.post(f"{gateway.url}/v1/images/edits", content=body, headers=headers, timeout=60).status_code == status


@pytest.mark.parametrize("path", ["generations", "edits"])
def test_a_field_in_the_url_is_refused_and_other_parameters_pass(gateway, path):
    url = f"{gateway.url}/v1/images/{path}"
    given = (
        {"files": {"image": ("a.png", png(picture(64, 64)))}, "data": FIELDS} if path == "edits" else {"json": FIELDS}
    )
    refused = httpx.post(f"{url}?seed=7", timeout=60, **given)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "seed")
    assert httpx.post(f"{url}?api-version=1", timeout=60, **given).status_code == 200
