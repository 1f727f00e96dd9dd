"""From a prompt to a PNG: start the real server, ask through the client, stop the server."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from qwen_image.errors import QwenImageError
from qwen_image.launch.ports import Ports
from qwen_image_client.cli import main as qwen_image_command
from scripts.progress import show
from scripts.serving import checkpoint_folder, running_server


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prompt", help="what to paint")
    parser.add_argument("--checkpoint", help="a folder (diffusers layout) or a Hugging Face id; else the demo's")
    parser.add_argument("--revision", help="of a Hugging Face id: a commit hash or a tag")
    parser.add_argument("--output", type=Path, default=Path(), help="a folder or a file name (default: here)")
    parser.add_argument("--seed", type=int, help="drawn by the server if left out")
    options = parser.parse_args()
    try:
        with running_server(checkpoint_folder(options.checkpoint, options.revision), Ports.free()) as server:
            return qwen_image_command(arguments_for(options, server.grpc_url))
    except QwenImageError as error:
        show(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def arguments_for(options: argparse.Namespace, url: str) -> list[str]:
    """What one would type: guidance is on by default, 20 steps are enough for the demo checkpoint."""
    seed = [] if options.seed is None else ["--seed", str(options.seed)]
    fixed = ["--url", url, "--num-inference-steps", "20", "--output", str(options.output)]
    return ["generate", options.prompt, *fixed, *seed]


if __name__ == "__main__":
    sys.exit(main())
