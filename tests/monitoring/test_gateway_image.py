"""The gateway's image, as far as it can be judged without building it."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from qwen_image_gateway.arguments import read_arguments
from qwen_image_gateway.schemas import HEALTH_PATHS

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "clients" / "gateway.Dockerfile"
IMPORT_WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in sys.argv[2:]:
            raise ModuleNotFoundError(name, name=name)

sys.path.append(sys.argv[1])
sys.meta_path.insert(0, Absent())
import qwen_image_gateway.__main__
"""


def instructions(keyword: str) -> list[str]:
    """The arguments of every instruction of this kind, continued lines joined."""
    joined = re.sub(r"\\\n\s*", " ", DOCKERFILE.read_text())
    return re.findall(rf"^{keyword} (.+)$", joined, re.MULTILINE)


def copied() -> list[str]:
    return [source for each in instructions("COPY") for source in each.split()[:-1]]


def wanted() -> list[Requirement]:
    lines = (ROOT / "clients" / "gateway.in").read_text().splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


def installed(requirements: Iterable[Requirement]) -> set[str]:
    """What pip installs for these, by the metadata of the environment that the tests run in."""
    found: set[tuple[str, str]] = set()
    new = [(canonicalize_name(each.name), extra) for each in requirements for extra in ("", *each.extras)]
    while new:
        name, extra = new.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        for each in map(Requirement, importlib.metadata.requires(name) or ()):
            if each.marker is None or each.marker.evaluate({"extra": extra}):
                new += [(canonicalize_name(each.name), further) for further in ("", *each.extras)]
    return {name for name, _ in found}


def pins() -> dict[str, str]:
    lines = [line for name in ("cpu", "front") for line in (ROOT / f"requirements/{name}.txt").read_text().splitlines()]
    return dict(line.split(";")[0].strip().split("==") for line in lines if "==" in line)


def test_hadolint_finds_nothing_with_no_rule_ignored():
    hadolint = Path(sys.executable).parent / "hadolint"
    found = subprocess.run(
        [hadolint, "--disable-ignore-pragma", "--failure-threshold", "style", DOCKERFILE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_what_is_copied_exists_and_is_let_through():
    ignored = DOCKERFILE.with_name("gateway.Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert sorted(line[1:] for line in ignored if line.startswith("!")) == sorted(copied())
    assert all((ROOT / source).exists() for source in copied())


def test_every_package_is_installed_at_the_version_that_was_tested():
    (install,) = [each for each in instructions("RUN") if "pip install" in each]
    assert set(re.findall(r"--constraint=(\S+)", install)) == {"requirements/cpu.txt", "requirements/front.txt"}
    assert installed(wanted()) <= pins().keys()
    assert all(importlib.metadata.version(name) == pins()[name] for name in installed(wanted()))


def test_the_gateway_starts_with_what_is_copied_and_installed_and_nothing_else(tmp_path):
    for source in copied():
        if (ROOT / source).is_dir():
            (tmp_path / Path(source).name).symlink_to(ROOT / source)
    there = installed(wanted())
    absent = [
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if not there & set(map(canonicalize_name, owners))
    ]
    command = [sys.executable, "-S", "-c", IMPORT_WITHOUT, sysconfig.get_path("purelib"), *absent]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_gateway_knows_every_option_of_the_command():
    (command,) = [json.loads(each) for each in instructions("CMD") if "--url" in each]
    service = yaml.safe_load((ROOT / "clients/gateway.compose.yaml").read_text())["services"]["gateway"]
    composed, _, with_keys = service["command"].partition(" ${QWEN_IMAGE_API_KEYS:+")
    assert composed.split() == command
    settings, address = read_arguments([*command, *with_keys.removesuffix("}").split()])
    assert str(settings.api_keys) == service["volumes"][0]["target"]
    assert (settings.url, address.host, str(address.port)) == ("triton:8001", "0.0.0.0", instructions("EXPOSE")[0])


def test_it_does_not_run_as_root_and_its_health_is_asked_where_no_key_is_needed():
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", instructions("USER")[-1])
    (asked,) = re.findall(r"127\.0\.0\.1:8080(/[\w/]*)", DOCKERFILE.read_text())
    assert asked in HEALTH_PATHS
