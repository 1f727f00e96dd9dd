"""One url says where the server is and how to talk to it."""

import pytest

from qwen_image_client import Client, InvalidRequest
from qwen_image_client._address import Address


@pytest.mark.parametrize(
    ("url", "protocol", "expected"),
    [
        ("localhost", None, Address("grpc", "localhost", 8001)),
        ("localhost", "http", Address("http", "localhost", 8000)),
        ("localhost:9", "grpc", Address("grpc", "localhost", 9)),
        ("grpcs://images.example", None, Address("grpc", "images.example", 443, True)),
        ("http://10.0.0.1:80/", None, Address("http", "10.0.0.1", 80)),
        ("https://images.example/v1/", "http", Address("http", "images.example", 443, True, "/v1")),
        ("[::1]:8001", None, Address("grpc", "::1", 8001)),
    ],
)
def test_urls_that_can_be_read(url, protocol, expected):
    assert Address.parse(url, protocol) == expected


def test_an_ipv6_host_keeps_its_brackets():
    assert Address.parse("[::1]:8001").host_and_port == "[::1]:8001"


@pytest.mark.parametrize(
    ("url", "protocol", "words"),
    [
        ("ftp://localhost", None, "use one of grpc, grpcs, http, https"),
        ("localhost", "ftp", "use one of"),
        ("http://localhost", "grpc", "contradicts"),
        ("grpc://localhost/base", None, "takes no path"),
        ("localhost:port", None, "port"),
        ("localhost:70000", None, "[Pp]ort"),
        ("", None, "host:port"),
        (":8001", None, "host:port"),
        ("http://user@localhost", None, "host:port"),
    ],
)
def test_urls_that_cannot_be_read_say_why(url, protocol, words):
    with pytest.raises(InvalidRequest, match=words):
        Address.parse(url, protocol)


@pytest.mark.parametrize("options", [{"timeout_s": 0}, {"timeout_s": float("nan")}, {"retries": -1}])
def test_a_client_refuses_settings_that_make_no_sense(options):
    with pytest.raises(InvalidRequest, match="must be"):
        Client("localhost", **options)
