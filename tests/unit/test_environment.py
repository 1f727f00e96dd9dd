"""What the set-up says of a machine before it installs anything."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "environment.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("environment_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def path_without(tmp_path, monkeypatch):
    """Makes PATH a folder that lacks these programs and has all else that a set-up asks for."""

    def link(*names: str) -> None:
        for name in {"lscpu", "setpriv", "cc", "gcc"} - set(names):
            (tmp_path / name).symlink_to(shutil.which(name))
        monkeypatch.setenv("PATH", str(tmp_path))

    return link


def test_this_machine_lacks_nothing(script):
    assert list(script.problems()) == []


def test_a_missing_lscpu_is_named_with_its_package(script, path_without):
    path_without("lscpu")
    (problem,) = script.problems()
    assert problem.startswith("lscpu")
    assert problem.endswith("apt-get install util-linux")


def test_a_missing_compiler_is_named_with_its_package(script, path_without):
    path_without("cc", "gcc")
    assert list(script.problems()) == ["a C compiler: apt-get install build-essential"]


@pytest.mark.parametrize("other", ["cc", "gcc"])
def test_any_compiler_will_do(script, path_without, other):
    path_without(other)
    assert list(script.problems()) == []


@pytest.mark.parametrize(
    ("libc", "problem"),
    [
        (("glibc", "2.34"), "glibc 2.34: glibc 2.35 or newer is needed (Debian 12, Ubuntu 22.04)"),
        (("", ""), "libc : glibc 2.35 or newer is needed (Debian 12, Ubuntu 22.04)"),
        (("glibc", "2.9"), "glibc 2.9: glibc 2.35 or newer is needed (Debian 12, Ubuntu 22.04)"),
    ],
)
def test_an_older_libc_is_named_with_the_oldest_that_will_do(script, monkeypatch, libc, problem):
    monkeypatch.setattr(script.platform, "libc_ver", lambda: libc)
    assert list(script.problems()) == [problem]


def test_every_requirements_file_exists_and_counts(script, monkeypatch, tmp_path):
    before = script.digest()
    assert before == script.digest()
    copies = [Path(shutil.copy(path, tmp_path)) for path in script.REQUIREMENTS]
    monkeypatch.setattr(script, "REQUIREMENTS", copies)
    assert script.digest() == before
    for path in copies:
        path.write_bytes(path.read_bytes() + b"# changed\n")
        assert script.digest() != before
        before = script.digest()
