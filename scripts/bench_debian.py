"""Newer system libraries than the machine's own, for one program: Debian 13's, unpacked into a folder of ours.

They come from the Debian mirror that this machine's apt already uses. apt keeps its lists and packages for this in that
folder too, so the system's stay as they are.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from qwen_image.errors import QwenImageError

SUITE = "trixie"
PACKAGES = ("libc6", "libstdc++6", "libgcc-s1", "libssl3t64", "zlib1g", "libzstd1")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
LIBRARIES = Path("usr/lib/x86_64-linux-gnu")
LOADER = LIBRARIES / "ld-linux-x86-64.so.2"
APT_CONFIGURATION = """\
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""


class ToolUnavailable(QwenImageError):  # noqa: N818
    """A tool of the benchmark can't be brought to this machine."""


def newer_libraries(folder: Path) -> Path:
    """The root of the unpacked libraries inside `folder`, fetched the first time. ToolUnavailable if that can't be."""
    root = folder / "root"
    if (root / LOADER).exists():
        return root
    missing = [name for name in ("apt-get", "dpkg-deb") if shutil.which(name) is None]
    if missing:
        raise ToolUnavailable(f"there is no {' and no '.join(missing)} here to bring them")
    apt = private_apt(folder, mirror())
    packages = folder / "packages"
    shutil.rmtree(packages, ignore_errors=True)
    packages.mkdir(parents=True)
    checked([*apt, "update"])
    checked([*apt, "download", *PACKAGES], cwd=packages)
    unpack(packages, root)
    return root


def mirror() -> str:
    """The address of the Debian archive that this machine's apt is set to use. ToolUnavailable if there is none."""
    system = platform.freedesktop_os_release()
    if system["ID"] != "debian":
        raise ToolUnavailable(f"its own libraries are too old, and it runs {system['PRETTY_NAME']}, not Debian")
    listed: list[tuple[str, str]] = re.findall(
        r"'(\S+?)/dists/(\S+?)/InRelease'", checked(["apt-get", "--print-uris", "update"])
    )
    # Others offer packages for a Debian release too; only the archive itself has its updates, or is named after it.
    debian = [address for address, suite in listed if suite.endswith("-updates")]
    debian += [address for address, suite in listed if address.rstrip("/").endswith("/debian")]
    if not debian:
        raise ToolUnavailable("this machine's apt has no Debian mirror among its sources to take them from")
    return debian[0]


def private_apt(folder: Path, mirror: str) -> list[str]:
    """The start of an apt-get command that knows one suite and touches nothing outside `folder`."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    options = f"arch=amd64 signed-by={KEYRING}" if KEYRING.is_file() else "arch=amd64"
    (folder / "sources.list").write_text(f"deb [{options}] {mirror} {SUITE} main\n")
    (folder / "status").touch()
    configuration = folder / "apt.conf"
    configuration.write_text(APT_CONFIGURATION.format(folder=folder))
    return ["apt-get", "--quiet", f"--config-file={configuration}"]


def unpack(packages: Path, root: Path) -> None:
    """All packages into `root`, under a temporary name until it is whole."""
    staging = root.with_name("root.tmp")
    shutil.rmtree(staging, ignore_errors=True)
    for package in sorted(packages.glob("*.deb")):
        checked(["dpkg-deb", "--extract", str(package), str(staging)])
    shutil.rmtree(root, ignore_errors=True)
    staging.rename(root)


def checked(command: Sequence[str], cwd: Path | None = None) -> str:
    """What the command wrote to its standard output. ToolUnavailable with its own words if it failed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolUnavailable(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout
