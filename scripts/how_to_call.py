"""What a server that is ready tells its operator: commands that work as they are printed, from this folder."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from qwen_image.launch.tritonserver import TritonServer

ROOT = Path(__file__).resolve().parents[1]
GENERATES = """
Command line   {bin}/qwen-image generate "a red circle above a blue square" --url {grpc}
curl           PATH={bin}:$PATH {examples}/curl.sh {http} picture.png
tritonclient   {bin}/python {examples}/tritonclient_grpc.py {grpc} picture.png
               {bin}/python {examples}/tritonclient_http.py {http} picture.png
"""
EDITS = """
Command line   {bin}/qwen-image edit "make the circle blue" --image picture.png --url {grpc}
tritonclient   {bin}/python {examples}/edit.py {grpc} edited.png picture.png
"""
GATEWAY = """OpenAI client  OpenAI(base_url="{gateway}/v1", api_key="none").images.{call}
"""
PAGE = """Page           {gateway}/page
"""
ANYHOW = """Metrics        {metrics}
Models         http://{http}/v2/models/{model} (metadata: every input and output)

Ctrl-C stops the server.
"""


def how_to_call(server: TritonServer, gateway_url: str | None, *, with_page: bool) -> str:
    """For a ready server, and the gateway at `gateway_url` if there is one."""
    edits = (server.repository / "qwen_image_edit").is_dir()
    text = (EDITS if edits else GENERATES) + (GATEWAY if gateway_url else "") + (PAGE if with_page else "") + ANYHOW
    return text.format(
        bin=_shown(Path(sys.prefix) / "bin"),
        examples=_shown(ROOT / "clients" / "examples"),
        http=server.http_url,
        grpc=server.grpc_url,
        metrics=server.metrics_url,
        model="qwen_image_edit" if edits else "qwen_image",
        gateway=gateway_url,
        call='edit(image=open("picture.png", "rb"), prompt="...")' if edits else 'generate(prompt="a red circle")',
    )


def _shown(folder: Path) -> str:
    """As it is typed here: relative to this folder where it lies in it."""
    path = Path(os.path.normpath(folder))
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))
