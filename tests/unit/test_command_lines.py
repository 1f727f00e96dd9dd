"""The commands of `build/`, run as the documentation has them: as scripts."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from build.command_line import HelpFormatter
from build.options import add_repository_options
from build.settings import GpuSettings, Settings
from qwen_image_contract import Limits
from qwen_image_gateway.settings import GatewaySettings

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = sorted(path for path in (ROOT / "build").glob("*.py") if "__main__" in path.read_text())


def test_a_command_runs_as_a_script_wherever_it_is_started(tmp_path):
    path = ROOT / "build" / "gpu_repository.py"  # it imports most of the others
    done = subprocess.run([sys.executable, path, "--help"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: gpu_repository.py")


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.stem)
def test_a_command_explains_every_option(path, usage_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    usage = usage_of(path)
    assert usage.startswith(f"usage: {path.name}")
    options = options_of(usage)
    assert options
    assert [name for name, text in options.items() if not text] == []


def options_of(usage: str) -> dict[str, str]:
    """The help of every option."""
    joined = re.sub(r"\n {20,}", "  ", usage)
    return {
        name: text.strip() for name, text in re.findall(r"^  (?:-\w, )?(--[\w-]+)(?: \S+)*(.*)$", joined, re.MULTILINE)
    }


def test_every_setting_says_what_it_means_and_its_default():
    parser = argparse.ArgumentParser(formatter_class=HelpFormatter)
    add_repository_options(parser, GpuSettings)
    options = options_of(parser.format_help())
    assert options["--max-images-in-flight"].startswith("images generated at one time")
    assert options["--niceness"].endswith("(default: 0)")
    assert all("(default: " in text for name, text in options.items() if name != "--help")


def test_no_option_of_the_server_is_one_of_the_gateway_too():
    ours = {each.name for settings in (Settings, Limits) for each in fields(settings)}
    assert not ours & {each.name for each in fields(GatewaySettings)}


def test_commands_say_the_version_of_the_package():
    command = [sys.executable, "-m", "qwen_image_client", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert done.stdout.split() == [project["version"]]


def test_no_script_hides_a_module_of_python():
    """A script's own folder comes first where Python looks for modules."""
    stems = {path.stem for folder in ("build", "scripts") for path in (ROOT / folder).glob("*.py")}
    assert {"export", "engines", "repository"} < stems
    assert stems & sys.stdlib_module_names == set()
