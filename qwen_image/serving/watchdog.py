"""Ends a server that has lost a model: Triton's Python backend never starts a process again, and says it is ready.

Lost is a model with a process that died, or that hangs: its heart has not beaten for a while.

Whoever started the server starts it again; requests that would wait for ever get an error.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from qwen_image.serving.model_process import ModelProcess, started_at, watched_processes

LOOK_EVERY_S = 1.0
KILL_AFTER_S = 5.0  # samplers that live use it to refuse their images; what was lost with its process never answers
DEAD_AFTER_LOOKS = 2  # a stopping server may kill a process of which it hears nothing, just before it ends this one
DIED, HANGS = "died", "hangs"
_log = logging.getLogger("qwen_image.serving")


class Watchdog:
    """A thread that looks at the server's model processes; `close` before they end in order.

    `hangs_after_s` without a heartbeat is counted in looks: the watchdog may have been stopped with the others.
    A model with another instance is lost too: Triton still gives requests to the one that is dead or hangs.
    """

    def __init__(
        self,
        folder: Path,
        server_pid: int,
        *,
        hangs_after_s: float,
        look_every_s: float = LOOK_EVERY_S,
        kill_after_s: float = KILL_AFTER_S,
    ) -> None:
        self._folder = folder
        self._server_pid = server_pid
        self._server_started = started_at(server_pid)
        self._look_every_s = look_every_s
        self._lost_after_looks = {DIED: DEAD_AFTER_LOOKS, HANGS: hangs_after_s / look_every_s}
        self._kill_after_s = kill_after_s
        self._beats: dict[ModelProcess, int | None] = {}
        self._looks: Counter[tuple[ModelProcess, str]] = Counter()  # in a row, at which something was wrong
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_closing.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_closing.wait(self._look_every_s):
            if lost := self._look():
                self._end_server(lost)
                return

    def _look(self) -> dict[ModelProcess, str]:
        """What is lost, and how."""
        watched = watched_processes(self._folder, self._server_started)
        beats = {process: process.last_beat(self._folder) for process in watched}
        wrong = [(process, HANGS) for process, beat in beats.items() if beat == self._beats.get(process)]
        wrong += [(process, DIED) for process in watched if not process.is_alive]
        self._beats = beats
        self._looks = Counter({each: self._looks[each] + 1 for each in wrong})
        return {process: how for (process, how), looks in self._looks.items() if looks >= self._lost_after_looks[how]}

    def _end_server(self, lost: Mapping[ModelProcess, str]) -> None:
        """Asked first, so that it is no longer ready and the living refuse what they hold; then killed.

        Triton 2.51 does not end by itself while it waits for a lost process's answers, and may not while it unloads its
        model. That process may be the last: by then this one has ended, so another one kills.
        """
        for process, how in lost.items():
            _log.error("model process %s: %s; Triton does not start it again, so the server is ended", how, process)
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
