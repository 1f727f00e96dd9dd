"""A real page over a real server, and browsers that visit it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qwen_image.launch.tritonserver import Ports, TritonServer
from tests.page.visitor import Visitor

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def page_over(url: str, folder: Path) -> Iterator[str]:
    """The page as its own process, its temporary files under `folder`; its address."""
    port = Ports.free().http
    command = [sys.executable, "-m", "qwen_image_page", "--url", f"grpc://{url}", "--port", str(port)]
    with (folder / "page.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "TMPDIR": str(folder)}, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield _answering(f"http://127.0.0.1:{port}/", process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _answering(address: str, process: subprocess.Popen[bytes]) -> str:
    while process.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return address
    raise AssertionError(f"the page ended with code {process.returncode}")


@pytest.fixture(scope="package")
def browser(slow) -> Iterator[object]:
    """Headless Chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium isn't installed (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        # As root, in containers, Chromium starts without its sandbox only.
        launched = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="package")
def demo_page(browser, demo_server: TritonServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with page_over(demo_server.grpc_url, tmp_path_factory.mktemp("demo_page")) as address:
        yield address


@pytest.fixture
def visit(browser, tmp_path: Path) -> Iterator[Callable[[str], Visitor]]:
    """Opens an address as a visitor of its own. Nobody may have been sent to another host by the end."""
    visitors: list[Visitor] = []

    def opened(address: str) -> Visitor:
        visitors.append(Visitor(browser.new_context(), address, tmp_path))
        return visitors[-1]

    yield opened
    for visitor in visitors:
        visitor.leave()
    assert [url for visitor in visitors for url in visitor.fetched_elsewhere] == []


@pytest.fixture
def visitor(visit, demo_page: str) -> Visitor:
    return visit(demo_page)
