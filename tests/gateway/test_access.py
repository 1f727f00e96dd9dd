"""Who may ask: keys, and web pages of other origins."""

from __future__ import annotations

import json
import os
import re

import httpx
import openai
import pytest

from qwen_image_gateway.middleware.access import ApiKeys, allowed_hosts_for
from qwen_image_gateway.settings import SettingsError
from tests.gateway.running import gateway_over

ORIGIN = "https://pictures.example"


@pytest.fixture(scope="module")
def keys_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text("# ours\nfirst-key\n\n  second-key  \n# third-key\n")
    return file


@pytest.fixture(scope="module")
def locked(server, keys_file, tmp_path_factory):
    """A gateway with keys that pages of one origin may ask."""
    options = ("--api-keys", str(keys_file), "--cors-origin", ORIGIN, "--log-addresses")
    with gateway_over(server.grpc_url, tmp_path_factory.mktemp("locked"), *options) as running:
        yield running


@pytest.mark.parametrize("key", ["first-key", "second-key"])
def test_every_key_of_the_file_opens(locked, key):
    with locked.client(key) as client:
        assert client.models.list().data


@pytest.mark.parametrize("key", ["first", "first-key2", "# ours", "third-key", "schlüssel".encode().decode("latin-1")])
def test_what_is_not_a_key_is_refused_and_not_repeated(locked, key):
    answer = httpx.get(f"{locked.url}/v1/models", headers={"authorization": f"Bearer {key}".encode("latin-1")})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"]) == (401, "invalid_api_key", "authentication_error")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert key not in answer.text


@pytest.mark.parametrize("path", ["/v1/models", "/openapi.json", "/metrics", "/nowhere"])
def test_everything_but_health_asks_for_a_key(locked, path):
    assert httpx.get(f"{locked.url}{path}").status_code == 401
    assert httpx.get(f"{locked.url}{path}", headers={"authorization": "Basic first-key"}).status_code == 401


@pytest.mark.parametrize("path", ["/health", "/health/ready"])
def test_health_is_open(locked, path):
    assert httpx.get(f"{locked.url}{path}").status_code == 200


def test_openais_client_raises_an_authentication_error(locked):
    with locked.client("wrong") as client, pytest.raises(openai.AuthenticationError, match="isn't known"):
        client.images.generate(prompt="a star")


def test_a_page_of_an_allowed_origin_may_ask_and_sees_errors(locked):
    preflight = httpx.options(
        f"{locked.url}/v1/images/generations",
        headers={
            "origin": ORIGIN,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type,x-stainless-lang,x-stainless-retry-count",
        },
    )
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == ORIGIN
    refused = httpx.get(f"{locked.url}/v1/models", headers={"origin": ORIGIN})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, ORIGIN)
    assert "x-request-id" in refused.headers["access-control-expose-headers"]


def test_a_page_of_another_origin_may_not(locked):
    answer = httpx.get(f"{locked.url}/v1/models", headers={"origin": "https://elsewhere.example"})
    assert "access-control-allow-origin" not in answer.headers


def test_no_origin_may_ask_unless_it_is_allowed(gateway):
    answer = httpx.get(f"{gateway.url}/v1/models", headers={"origin": ORIGIN})
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://elsewhere.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site", "origin": "http://localhost:1"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "https://behind.a.proxy"}, 400),
        ({"origin": "http://itself"}, 400),
        ({}, 400),
    ],
)
def test_a_form_of_another_sites_page_is_refused(gateway, headers, status):
    own = gateway.url.removeprefix("http://")
    sent = {name: value.replace("itself", own) for name, value in headers.items()}
    answer = httpx.post(f"{gateway.url}/v1/images/edits", data={"prompt": "a star"}, headers=sent)
    assert answer.status_code == status
    assert (answer.json()["error"]["code"] == "cross_origin") == (status == 403)


def test_a_form_of_an_allowed_origin_is_not(locked):
    headers = {"origin": ORIGIN, "sec-fetch-site": "cross-site"}
    assert httpx.post(f"{locked.url}/v1/images/edits", headers=headers).json()["error"]["code"] == "invalid_api_key"


def test_on_loopback_it_is_asked_under_loopbacks_names_alone(gateway):
    port = gateway.url.rsplit(":", 1)[1]
    for host, path, status in [
        ("elsewhere.example", "/v1/models", 403),
        (f"127.0.0.1.elsewhere.example:{port}", "/v1/models", 403),
        ("", "/v1/models", 403),
        (f"LOCALHOST:{port}", "/v1/models", 200),
        (f"[::1]:{port}", "/v1/models", 200),
        ("elsewhere.example", "/health", 200),
    ]:
        answer = httpx.get(f"{gateway.url}{path}", headers={"host": host})
        assert answer.status_code == status, host
        assert status == 200 or answer.json()["error"]["code"] == "host_not_allowed"


@pytest.mark.parametrize(
    ("address", "allowed", "hosts"),
    [
        ("0.0.0.0", (), ("*",)),
        ("10.1.2.3", (), ("*",)),
        ("127.0.0.1", ("pictures.example",), ("pictures.example",)),
        ("127.0.0.2", (), ("localhost", "127.0.0.1", "::1", "127.0.0.2")),
    ],
)
def test_other_addresses_are_asked_under_any_name_unless_some_are_given(address, allowed, hosts):
    assert allowed_hosts_for(address, allowed) == hosts


def test_the_log_names_the_field_that_was_refused_and_callers_addresses_only_where_asked(gateway, locked):
    for sent in (json.dumps({"size": "1"}), json.dumps({"a\nb": 1, "prompt": "a star"})):
        headers = {"content-type": "application/json"}
        assert httpx.post(f"{gateway.url}/v1/images/generations", content=sent, headers=headers).status_code == 400
    httpx.get(f"{locked.url}/v1/models")
    log = gateway.log_path.read_text()
    assert re.search(r"missing_field, field 'prompt'|invalid_value, field 'size'", log)
    assert r"unknown_field, field 'a\nb'" in log
    assert "from 127.0.0.1" not in log
    assert "invalid_api_key, from 127.0.0.1" in locked.log_path.read_text()


def test_keys_are_read_again_when_their_file_changes(tmp_path):
    file = tmp_path / "keys"
    file.write_text("old\n")
    keys = ApiKeys(file)
    file.write_text("new\n")
    os.utime(file, ns=(0, 0))
    assert keys.is_valid("new")
    assert not keys.is_valid("old")


def test_keys_stay_as_they_were_when_their_file_is_damaged(tmp_path):
    file = tmp_path / "keys"
    file.write_text("old\n")
    keys = ApiKeys(file)
    file.write_text("# none\n")
    assert keys.is_valid("old")
    file.unlink()
    assert keys.is_valid("old")


def test_keys_that_could_not_be_read_are_read_once_they_can(tmp_path, caplog):
    file = tmp_path / "keys"
    file.write_text("old\n")
    keys = ApiKeys(file)
    file.write_text("")
    os.utime(file, ns=(0, 0))
    assert keys.is_valid("old")
    assert keys.is_valid("old")
    assert len(caplog.records) == 1, "it isn't said with every request"
    file.write_bytes(b"new\n")
    os.utime(file, ns=(0, 0))
    assert keys.is_valid("new")
    assert not keys.is_valid("old")


@pytest.mark.parametrize("content", [None, "", "# nothing\n", "\n"])
def test_a_file_without_a_key_is_refused_at_the_start(tmp_path, content):
    file = tmp_path / "keys"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SettingsError, match="API keys"):
        ApiKeys(file)
