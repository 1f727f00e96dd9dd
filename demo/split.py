"""The held-out split: a combination belongs to it by its hash, on every machine and in every run."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

_ONE_IN = 10


def is_held_out(combination: tuple[Hashable, ...]) -> bool:
    digest = hashlib.blake2b(repr(combination).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") % _ONE_IN == 0
