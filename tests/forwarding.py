"""A port that leads to a server elsewhere: a test opens it when its server is to appear."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def forwarding(port: int, address: str) -> Iterator[None]:
    """Whoever connects to the port is connected to the address ("127.0.0.1:8001")."""
    started: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = queue.SimpleQueue()

    async def serve() -> None:
        stopped = asyncio.Event()
        async with await asyncio.start_server(connect, "127.0.0.1", port):
            started.put((asyncio.get_running_loop(), stopped))
            await stopped.wait()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*address.split(":"))
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    loop, stopped = started.get(timeout=10)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass  # the other side is told so
    finally:
        writer.close()
