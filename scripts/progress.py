"""What a script says while it waits: one line that changes on a terminal, else a new line now and then."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

ON_A_TERMINAL_S, ELSEWHERE_S = 1.0, 10.0
CLEAR = "\r\033[K"


def show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


@dataclass(slots=True)
class Progress:
    """Of a start; `describe` names what is being loaded."""

    describe: Callable[[], str]
    next_s: float = 0.0

    def waited(self, seconds: float) -> None:
        """To be called often, with the seconds since the start."""
        if seconds < self.next_s:
            return
        is_terminal = sys.stderr.isatty()
        self.next_s = seconds + (ON_A_TERMINAL_S if is_terminal else ELSEWHERE_S)
        line = f"  {seconds:.0f} s, loading {self.describe() or 'the ensembles'}"
        show(f"{CLEAR}{line}" if is_terminal else f"{line}\n")

    def end(self, text: str) -> None:
        show(f"{CLEAR if sys.stderr.isatty() else ''}  {text}\n")
