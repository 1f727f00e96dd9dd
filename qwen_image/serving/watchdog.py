"""Ends a server that has lost a model: Triton's Python backend never starts a dead process again, and says it is ready.

Whoever started the server starts it again; requests that would wait for ever get an error.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path

from qwen_image.serving.model_process import ModelProcess, started_at, watched_processes

LOOK_EVERY_S = 1.0
KILL_AFTER_S = 5.0  # samplers that live use it to refuse their images; what was lost with its process never answers
CALLED_AGAIN = frozenset({"dit"})  # by the sampler when a call failed, until a living instance takes it
_log = logging.getLogger("qwen_image.serving")


class Watchdog:
    """A thread that looks at the server's model processes; `close` before they end in order.

    A model with another instance is lost too: Triton still gives requests to the dead one, which fail. Only the calls
    of `dit` are made again. What is dead must be so at two looks in a row: a stopping server may kill a process of
    which it hears nothing, just before it tells this one to end.
    """

    def __init__(
        self, folder: Path, server_pid: int, *, look_every_s: float = LOOK_EVERY_S, kill_after_s: float = KILL_AFTER_S
    ) -> None:
        self._folder = folder
        self._server_pid = server_pid
        self._server_started = started_at(server_pid)
        self._look_every_s = look_every_s
        self._kill_after_s = kill_after_s
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_closing.set()
        self._thread.join()

    def _watch(self) -> None:
        suspects: set[ModelProcess] = set()
        spared: set[ModelProcess] = set()
        while not self._is_closing.wait(self._look_every_s):
            living, dead = self._look()
            going_on = CALLED_AGAIN & {process.model for process in living}
            lost = {process for process in dead & suspects if process.model not in going_on}
            if lost:
                self._end_server(lost)
                return
            for process in (dead & suspects) - spared:
                _log.error("model process died: %s; another process of its model goes on", process)
            spared |= dead & suspects
            suspects = dead

    def _look(self) -> tuple[set[ModelProcess], set[ModelProcess]]:
        """The living and the dead."""
        watched = watched_processes(self._folder, self._server_started)
        living = {process for process in watched if process.is_alive}
        return living, watched - living

    def _end_server(self, dead: Iterable[ModelProcess]) -> None:
        """Asked first, so that it is no longer ready and the living refuse what they hold; then killed.

        Triton 2.51 does not end by itself while it waits for a dead process's answers, and may not while it unloads its
        model. That process may be the last: by then this one has ended, so another one kills.
        """
        names = ", ".join(sorted(map(str, dead)))
        _log.error("model process died: %s; Triton does not start it again, so the server is ended", names)
        if started_at(self._server_pid) != self._server_started:  # it has ended already; its pid may be another's
            return
        os.kill(self._server_pid, signal.SIGTERM)
        kill_later = '{ sleep "$1"; kill -KILL "$2"; } &'
        subprocess.run(
            ["sh", "-c", kill_later, "watchdog", str(self._kill_after_s), str(self._server_pid)],
            check=True,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # there may be nobody left to kill
        )
