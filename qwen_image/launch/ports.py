"""The TCP ports of a server and of what runs beside it: free ones, and whether those that were asked for are free."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from qwen_image.errors import ServerFailed

UNASSIGNED_PORTS = (12_000, 32_000)
_GIVEN_OUT: set[int] = set()  # by this process: whoever got them may not listen yet


@dataclass(frozen=True, slots=True)
class Ports:
    """The three TCP ports of one server."""

    http: int
    grpc: int
    metrics: int

    @classmethod
    def free(cls) -> Ports:
        """Three ports nobody listens on now, below the range from which the system gives ports to connections."""
        candidates = set(range(*UNASSIGNED_PORTS)) - _GIVEN_OUT
        ports = cls(*itertools.islice(filter(_is_free, random.sample(sorted(candidates), 100)), 3))
        _GIVEN_OUT.update((ports.http, ports.grpc, ports.metrics))
        return ports

    def named(self) -> dict[str, int]:
        """By the options that choose them."""
        return {f"--{name}-port": port for name, port in asdict(self).items()}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def local_address(host: str) -> str:
    """Where this machine itself reaches what listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)


def check_ports(addresses: Mapping[str, tuple[str, int]]) -> None:
    """Bind every (host, port) once, all together, under the option's name. ServerFailed names those that can't be."""
    problems = []
    with contextlib.ExitStack() as bound:
        for option, (host, port) in addresses.items():
            probe = bound.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET))
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of before don't matter
            try:
                probe.bind((host, port))
                probe.listen()  # two options with one port: the second is refused
            except OSError as error:
                problems.append(f"{option} {port}: {_problem(host, port, error)}")
    if problems:
        raise ServerFailed("\n".join([*problems, "choose other ports, or --http-port 0 for free ones"]))


def _problem(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{host}:{port} is taken by {_owner(port)}"
    return f"can't listen on {host}:{port}: {error.strerror or error}"


def _owner(port: int) -> str:
    import psutil  # not there yet where scripts/setup begins

    pids = [each.pid for each in psutil.net_connections("tcp") if each.laddr.port == port and _listens(each)]
    if os.getpid() in pids:
        return "another option of this command"
    with contextlib.suppress(IndexError, TypeError, psutil.Error):
        return f"{psutil.Process(pids[0]).name()} (pid {pids[0]})"
    return "another user's process"


def listens_on(pid: int, port: int) -> bool:
    """Whether this very process listens on a TCP port; not where it has ended or is another user's."""
    import psutil

    try:
        found = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return False
    return any(each.laddr.port == port and _listens(each) for each in found)


def _listens(connection: Any) -> bool:
    return bool(connection.status == "LISTEN")
