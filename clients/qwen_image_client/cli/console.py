"""The two streams of the command line."""

import sys


def say(*sentences: str) -> None:
    """To the person at the terminal, on stderr."""
    sys.stderr.write("; ".join(sentences) + "\n")


def answer(line: object) -> None:
    """To the next program, on stdout."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
