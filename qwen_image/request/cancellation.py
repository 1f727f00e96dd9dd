"""Ending work by request id, across processes: Triton does not pass a client's cancellation on to an ensemble's steps.

Each sampler process keeps a registry of the requests it holds and listens on a Unix socket in a folder that only this
server's processes share. The `qwen_image_cancel` model asks all of them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import tempfile
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

REMEMBER_S = 600.0  # a cancelled id that is still on its way is ended on arrival
REMEMBER_MOST = 10_000
LONGEST_REQUEST_ID = 1024  # bytes
REPLY_TIMEOUT_S = 5.0
_TEMPORARY = Path(tempfile.gettempdir())  # for all of a server's processes: each may choose its own later
_log = logging.getLogger("qwen_image.serving")


@dataclass(slots=True, eq=False)
class Ticket:
    """One request held by a sampler. `is_cancelled` is read between steps."""

    request_id: str
    images: int
    is_cancelled: bool = False


@dataclass(slots=True)
class Registry:
    """The requests that one process holds, by id. Several may share an id; ending it ends them all."""

    _tickets: dict[str, list[Ticket]] = field(default_factory=dict)
    _ended: OrderedDict[str, float] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, request_id: str, images: int) -> Ticket:
        """A ticket for a request that arrives; cancelled from the start if its id was ended a short while ago."""
        ticket = Ticket(request_id, images)
        if not request_id:  # nobody can name it
            return ticket
        with self._lock:
            self._forget_old()
            ticket.is_cancelled = request_id in self._ended
            self._tickets.setdefault(request_id, []).append(ticket)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        with self._lock:
            held = self._tickets.get(ticket.request_id, [])
            if ticket in held:
                held.remove(ticket)
            if not held:
                self._tickets.pop(ticket.request_id, None)

    def cancel(self, request_id: str) -> int:
        """End every request of this id; how many images that were. 0: none is held now, the id is remembered."""
        with self._lock:
            self._forget_old()
            self._ended[request_id] = time.monotonic()
            self._ended.move_to_end(request_id)
            running = [ticket for ticket in self._tickets.get(request_id, []) if not ticket.is_cancelled]
            for ticket in running:
                ticket.is_cancelled = True
            return sum(ticket.images for ticket in running)

    def _forget_old(self) -> None:
        oldest_kept = time.monotonic() - REMEMBER_S
        while self._ended and (len(self._ended) > REMEMBER_MOST or next(iter(self._ended.values())) < oldest_kept):
            self._ended.popitem(last=False)


def sockets_folder(server_pid: int | None = None) -> Path:
    """The folder that a server's model processes share; without a pid that of our own, which is our parent."""
    folder = _TEMPORARY / f"qwen_image-{os.getuid()}-{server_pid or os.getppid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user: remove it, cancellation goes through it")
    return folder


async def listen(registry: Registry, path: Path) -> asyncio.Server:
    """Serve the registry at `path`: a request id and a newline in, the number of images ended and a newline out."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            writer.write(b"%d\n" % registry.cancel(line.decode(errors="replace").rstrip("\n")))
            await writer.drain()
        finally:
            writer.close()

    path.unlink(missing_ok=True)
    return await asyncio.start_unix_server(answer, path, limit=LONGEST_REQUEST_ID + 2)


def cancel_everywhere(request_id: str, folder: Path) -> int:
    """Ask every sampler process that listens in `folder`; the number of images ended.

    One that does not answer keeps nobody from asking the next.
    """
    return sum(_ask(path, request_id) for path in sorted(folder.glob("*.sock")))


def _ask(path: Path, request_id: str) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(REPLY_TIMEOUT_S)
        try:
            connection.connect(str(path))
            connection.sendall(request_id.encode() + b"\n")
            return int(connection.makefile("rb").readline())
        except (ConnectionRefusedError, FileNotFoundError):  # its process has ended
            return 0
        except (OSError, ValueError) as error:
            _log.warning("%s was asked to end a request and did not answer: %s", path.stem, error)
            return 0
