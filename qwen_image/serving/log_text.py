"""What callers sent, made fit for a log line: nothing in it starts a line, moves a cursor, or fills a disk."""

from __future__ import annotations

LONGEST_ID = 128  # characters
LONGEST_MESSAGE = 2_000


def escaped(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """On one line: characters that do not print as Python writes them, the end cut off, with its length told."""
    rest = len(text) - longest
    kept = text[:longest]
    if not kept.isprintable():
        kept = "".join(each if each.isprintable() else repr(each)[1:-1] for each in kept)
    return kept if rest <= 0 else f"{kept}... ({rest} more characters)"


def short_id(request_id: str) -> str:
    """A request id as log lines have it; "-" where there is none."""
    return escaped(request_id, LONGEST_ID) or "-"
