"""What a process does when its GPU may be lost; without one, the question to the GPU is put to a function."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from qwen_image.errors import InvalidRequest
from qwen_image.serving.gpu_health import EXIT_CODE, end_if_gpu_is_lost

LOSES_IT = """
import torch
from qwen_image.serving.gpu_health import end_if_gpu_is_lost
def ask():
    raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
end_if_gpu_is_lost([RuntimeError("a step failed")], ask)
print("goes on")
"""


def test_a_process_whose_gpu_fails_at_nothing_ends():
    ended = subprocess.run([sys.executable, "-c", LOSES_IT], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (EXIT_CODE, "")
    assert "the GPU is lost" in ended.stderr
    assert "illegal memory access" in ended.stderr


def test_a_process_whose_gpu_answers_goes_on():
    asked = []
    end_if_gpu_is_lost([torch.OutOfMemoryError("too large a picture")], lambda: asked.append(True))
    assert asked == [True]


@pytest.mark.parametrize("errors", [[], [InvalidRequest("height=65")]])
def test_the_gpu_is_not_asked_about_errors_of_ours(errors):
    end_if_gpu_is_lost(errors, lambda: pytest.fail("it was asked"))


def test_without_a_gpu_a_failed_step_ends_nothing():
    end_if_gpu_is_lost([RuntimeError("a step failed")])
