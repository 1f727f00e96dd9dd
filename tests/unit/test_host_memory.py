"""What was freed between things that live goes back to the system."""

from __future__ import annotations

from qwen_image.serving.host_memory import SPARE_BYTES, HostMemory, resident_bytes

BLOCK_BYTES = 100_000  # the C library never asks the system for so little alone


def freed_below_a_block_that_lives(total_bytes: int) -> bytes:
    blocks = [b"\1" * BLOCK_BYTES for _ in range(total_bytes // BLOCK_BYTES)]
    return blocks[-1]


def test_a_process_that_has_grown_gives_back_what_it_does_not_hold():
    memory = HostMemory()
    before = resident_bytes()
    above = freed_below_a_block_that_lives(5 * SPARE_BYTES)
    grown = resident_bytes() - before
    memory.give_back()
    assert grown > 4 * SPARE_BYTES
    assert resident_bytes() - before < SPARE_BYTES
    assert len(above) == BLOCK_BYTES
