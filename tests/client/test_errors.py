"""Every status Triton sends has one error, which knows its request."""

import pytest

import qwen_image_client
from qwen_image_client import (
    Cancelled,
    ConnectionLost,
    InvalidRequest,
    QwenImageClientError,
    ServerError,
    ServerUnavailable,
    ServerUnreachable,
    Timeout,
)
from qwen_image_client._errors import error_from_grpc, error_from_status
from qwen_image_client._http import HttpResponse, error_from_answer


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("INVALID_ARGUMENT", InvalidRequest),
        ("UNAVAILABLE", ServerUnavailable),
        ("CANCELLED", Cancelled),
        ("DEADLINE_EXCEEDED", Timeout),
        ("NOT_FOUND", ServerError),
        ("INTERNAL", ServerError),
        ("400", InvalidRequest),
        ("499", Cancelled),
        ("503", ServerUnavailable),
        ("404", ServerError),
        ("500", ServerError),
    ],
)
def test_a_status_becomes_its_error(status, kind):
    error = error_from_status(status, "why", "id-1")
    assert type(error) is kind
    assert (error.message, error.request_id, error.status) == ("why", "id-1", status)
    assert str(error) == "why (request id-1)"


@pytest.mark.parametrize(
    ("details", "kind"),
    [
        ("Exceeds maximum queue size", ServerUnavailable),
        ("failed to connect to all addresses; last error: Socket closed", ServerUnreachable),
        ("errors resolving nowhere.invalid:80", ServerUnreachable),
        ("Stream removed (Socket closed)", ConnectionLost),
        ("recvmsg:Connection reset by peer", ConnectionLost),
    ],
)
def test_what_grpc_calls_unavailable_is_told_apart(details, kind):
    assert type(error_from_grpc("UNAVAILABLE", details, None)) is kind


def test_the_ensemble_around_the_reason_is_left_out():
    error = error_from_status("400", "in ensemble 'qwen_image', height=17 must be a multiple of 16", "id-1")
    assert error.message == "height=17 must be a multiple of 16"


def test_a_cancelled_request_is_known_where_http_has_no_status_for_it():
    message = "in ensemble 'qwen_image', request id-1 was cancelled"
    assert type(error_from_status("400", message, "id-1")) is Cancelled
    assert type(error_from_status("400", message, "id-2")) is InvalidRequest


def test_the_answer_of_a_proxy_is_its_own_message():
    error = error_from_answer(HttpResponse(502, {}, b"<h1>Bad Gateway</h1>"), "id-1")
    assert (type(error), error.message, error.status) == (ServerError, "<h1>Bad Gateway</h1>", "502")


def test_only_refusals_before_any_work_are_retryable():
    kinds = [getattr(qwen_image_client, name) for name in qwen_image_client.__all__]
    errors = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, QwenImageClientError)]
    assert {kind for kind in errors if kind.retryable} == {ServerUnavailable, ServerUnreachable}
    assert {kind for kind in errors if kind.work_may_continue} == {Timeout, ConnectionLost}


def test_the_words_of_a_model_are_told_from_those_of_triton_itself():
    said = error_from_status("INTERNAL", "vae_decoder computed pixels that are not finite [INTERNAL]", "id-1")
    assert isinstance(said, ServerError)
    assert said.is_from_model
    inside = error_from_status("INTERNAL", "Failed to increase the shared memory pool size for key 'x'", "id-1")
    assert isinstance(inside, ServerError)
    assert not inside.is_from_model
