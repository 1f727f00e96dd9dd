"""The gateway as a process: `python -m qwen_image_gateway --url localhost:8001`."""

from __future__ import annotations

import logging
import sys

from qwen_image_gateway.app import create_app
from qwen_image_gateway.arguments import read_arguments
from qwen_image_gateway.server import Connections, serve
from qwen_image_gateway.settings import SettingsError


def main() -> int:
    """Serves until Ctrl-C or SIGTERM; requests in flight are finished first."""
    try:
        settings, address = read_arguments()
        app = create_app(settings)
    except SettingsError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname).1s %(name)s: %(message)s")
    serve(app, address.host, address.port, stop_s=settings.stop_s, connections=Connections.from_settings(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
