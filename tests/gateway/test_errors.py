"""What callers hear of an error that Triton reports."""

from __future__ import annotations

import logging

from qwen_image_client.integration import error_from_status
from qwen_image_gateway.errors import error_from_client

INSIDE = "Failed to increase the shared memory pool size for key 'qwen_image_0a1b_region'"


def test_tritons_own_words_are_for_the_log_and_not_for_callers(caplog):
    with caplog.at_level(logging.ERROR, "qwen_image_gateway"):
        answer = error_from_client(error_from_status("INTERNAL", INSIDE, "id-1"))
    assert (answer.status_code, answer.code) == (502, "triton_failed")
    assert "shared memory" not in answer.detail
    assert "qwen_image_0a1b_region" in caplog.text


def test_a_models_own_words_reach_callers():
    answer = error_from_client(error_from_status("500", "dit computed latents that are not finite [INTERNAL]", "id-1"))
    assert (answer.status_code, answer.detail) == (502, "Triton failed: dit computed latents that are not finite")
