"""Ports are looked at before anything is loaded, and the answer names whoever has one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from qwen_image.errors import ServerFailed
from qwen_image.launch.ports import Ports, check_ports, listens_on
from tests.processes import run_process


@pytest.fixture
def taken():
    """A port that this process listens on, at 127.0.0.1 alone."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_taken_port_is_named_with_its_option_and_its_owner(host):
    listen = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    with run_process([sys.executable, "-c", listen], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        port = int(owner.stdout.readline())
        with pytest.raises(
            ServerFailed, match=rf"--grpc-port {port}: {host}:{port} is taken by \S+ \(pid {owner.pid}\)"
        ):
            check_ports({"--http-port": (host, Ports.free().http), "--grpc-port": (host, port)})
        owner.communicate(b"\n")


def test_every_taken_port_is_named_at_once(taken):
    with pytest.raises(ServerFailed) as refused:
        check_ports({"--http-port": ("127.0.0.1", taken), "--gateway-port": ("127.0.0.1", taken)})
    assert {"--http-port", "--gateway-port"} <= set(str(refused.value).split())


def test_two_options_can_not_have_one_port():
    port = Ports.free().http
    with pytest.raises(ServerFailed, match=rf"--metrics-port {port}: .* is taken by another option of this command"):
        check_ports({"--http-port": ("127.0.0.1", port), "--metrics-port": ("0.0.0.0", port)})


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(ServerFailed, match=r"--http-port 8000: can't listen on 192\.0\.2\.1:8000: Cannot assign"):
        check_ports({"--http-port": ("192.0.2.1", 8000)})


def test_free_ports_pass_and_are_free_afterwards():
    ports = Ports.free()
    addresses = {option: ("127.0.0.1", port) for option, port in ports.named().items()}
    check_ports(addresses)
    check_ports(addresses)


def test_who_listens_is_told_from_who_does_not(taken):
    assert listens_on(os.getpid(), taken)
    assert not listens_on(os.getppid(), taken)
    assert not listens_on(2**22 + 1, taken)
