"""Memory that was freed and that the C library keeps.

Tensors of ever other sizes leave holes between those that live, so a process that decodes mixed sizes grows although it
holds no more than before. Holes go back to the system by being asked for; the next tensors there cost page faults.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

SPARE_BYTES = 64 * 1024**2  # that may be kept for the next picture: small ones never cost a page fault
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_libc = ctypes.CDLL(None)


class HostMemory:
    """Of this process. `give_back` after a computation whose tensors are gone."""

    def __init__(self) -> None:
        self._resident_bytes = resident_bytes()

    def give_back(self) -> None:
        """Once the process has grown by more than it may keep since it last gave back."""
        resident = resident_bytes()
        if resident > self._resident_bytes + SPARE_BYTES:
            _libc.malloc_trim(0)
            resident = resident_bytes()
            self._resident_bytes = resident
        self._resident_bytes = min(self._resident_bytes, resident)


def resident_bytes() -> int:
    """What this process has in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
