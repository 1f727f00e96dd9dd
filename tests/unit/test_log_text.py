"""What callers sent, in log lines."""

from __future__ import annotations

import pytest

from qwen_image.serving.log_text import escaped, short_id


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a star, 七颗星星", "a star, 七颗星星"),
        ("one\nE1128 forged", r"one\nE1128 forged"),
        ("\x1b[2J\r\0", r"\x1b[2J\r\x00"),
        ("a\u2028b\u202ec\x85", r"a\u2028b\u202ec\x85"),
    ],
)
def test_what_does_not_print_is_written_as_python_writes_it(text, expected):
    assert escaped(text) == expected


def test_an_id_of_a_megabyte_is_cut_and_its_length_told():
    assert short_id("x" * 1_000_000) == "x" * 128 + "... (999872 more characters)"


def test_an_absent_id_is_a_dash():
    assert short_id("") == "-"
