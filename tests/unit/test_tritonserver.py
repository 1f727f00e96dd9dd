"""How the server process would be started; the serving tests start it."""

from __future__ import annotations

import os
import shutil
import sysconfig
from dataclasses import astuple
from pathlib import Path

import pytest

from qwen_image.errors import ServerFailed
from qwen_image.launch import tritonserver
from qwen_image.launch.tritonserver import Ports, TritonServer, environment, libpython_folder


@pytest.fixture
def unstarted(tmp_path: Path) -> TritonServer:
    return TritonServer(tmp_path / "repository", Ports(18000, 18001, 18002), tmp_path / "log", exit_timeout_s=7)


def test_free_ports_are_distinct():
    ports = [Ports.free() for _ in range(20)]
    assert all(len(set(astuple(each))) == 3 for each in ports)
    assert all(1024 <= port < 65536 for each in ports for port in astuple(each))


def test_the_command_names_the_binary_the_repository_and_every_port(unstarted, tmp_path):
    command = unstarted.command()
    (binary,) = [each for each in command if each.endswith("/bin/tritonserver")]
    assert os.access(binary, os.X_OK)
    assert shutil.which(command[0])
    assert {
        f"--model-repository={tmp_path / 'repository'}",
        "--http-address=127.0.0.1",
        "--http-port=18000",
        "--grpc-address=127.0.0.1",
        "--grpc-port=18001",
        "--metrics-address=127.0.0.1",
        "--metrics-port=18002",
        "--exit-timeout-secs=7",
    } <= set(command[command.index(binary) + 1 :])


def test_the_address_is_the_one_that_was_asked_for(tmp_path):
    server = TritonServer(tmp_path, Ports(1, 2, 3), tmp_path / "log", host="0.0.0.0")
    assert [each for each in server.command() if "-address=" in each] == [
        f"--{name}-address=0.0.0.0" for name in ("http", "grpc", "metrics")
    ]


def test_two_servers_share_no_name_in_shared_memory(unstarted, tmp_path):
    other = TritonServer(tmp_path, unstarted.ports, tmp_path / "log")
    prefixes = [
        next(option for option in server.command() if "shm-region-prefix-name" in option)
        for server in (unstarted, other)
    ]
    assert prefixes[0] != prefixes[1]
    assert prefixes[0].endswith(unstarted.shm_prefix)


def test_extra_arguments_come_last(tmp_path):
    extra = ("--log-verbose=1", "--rate-limit=off")
    server = TritonServer(tmp_path, Ports(1, 2, 3), tmp_path / "log", extra_arguments=extra)
    assert tuple(server.command()[-2:]) == extra


def test_the_backend_folder_holds_the_stub_of_this_python(unstarted):
    option = next(each for each in unstarted.command() if each.startswith("--backend-directory="))
    folder = Path(option.split("=")[1]) / "python"
    assert os.access(folder / "triton_python_backend_stub", os.X_OK)
    assert (folder / "libtriton_python.so").is_file()
    assert (folder / "triton_python_backend_utils.py").is_file()


def test_urls_name_host_and_port(unstarted):
    assert unstarted.http_url == "127.0.0.1:18000"
    assert unstarted.grpc_url == "127.0.0.1:18001"
    assert unstarted.metrics_url == "http://127.0.0.1:18002/metrics"


def test_a_server_that_was_never_started_is_not_ready_and_stops_without_ado(tmp_path):
    server = TritonServer(tmp_path, Ports.free(), tmp_path / "log")
    assert not server.is_ready()
    assert server.stop() is None


def test_the_logs_summary_is_what_went_wrong_and_the_last_lines(unstarted):
    lines = [b"line %d" % number for number in range(100)]
    lines[3] = b"E1128 00:33:01.659101 8298 model_lifecycle.cc:642] failed to load 'dit'"
    unstarted.log_path.write_bytes(b"\n".join([*lines, b"\xff end"]))
    assert unstarted.log_tail(2).splitlines() == [lines[3].decode(), "...", "line 99", "\N{REPLACEMENT CHARACTER} end"]


def test_this_pythons_shared_library_is_found():
    assert (libpython_folder() / sysconfig.get_config_var("INSTSONAME")).is_file()


def test_a_python_without_a_shared_library_hears_which_package_to_install(monkeypatch):
    monkeypatch.setattr(tritonserver.sysconfig, "get_config_var", lambda name: None)
    with pytest.raises(ServerFailed, match=r"apt-get install libpython3\.\d+"):
        libpython_folder()


def test_the_servers_environment_finds_the_libraries_and_keeps_what_was_there(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/given/libraries")
    monkeypatch.setenv("PYTHONPATH", "/given/packages")
    found = environment()
    libraries = found["LD_LIBRARY_PATH"].split(":")
    assert str(libpython_folder()) in libraries
    assert libraries[-1] == "/given/libraries"
    assert found["PYTHONPATH"].split(":") == [sysconfig.get_path("purelib"), "/given/packages"]
    assert found["HOME"] == os.environ["HOME"]


def test_an_empty_variable_adds_no_empty_folder(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    found = environment()
    assert "" not in found["LD_LIBRARY_PATH"].split(":")
    assert "" not in found["PYTHONPATH"].split(":")
