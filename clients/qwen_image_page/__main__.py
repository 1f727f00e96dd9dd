"""The page by itself: `python -m qwen_image_page --url localhost:8001 --port 7860`."""

from __future__ import annotations

import argparse

import fastapi

from qwen_image_client import InvalidRequest
from qwen_image_client.integration import DEFAULT_GUIDANCE, ON_OFF
from qwen_image_gateway import GatewaySettings
from qwen_image_gateway.middleware.access import SameOriginMiddleware, allowed_hosts_for
from qwen_image_gateway.server import Connections, serve
from qwen_image_page import mount

_STOP_S = 1  # for browsers to close their connections


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="qwen_image_page", description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--url", default="localhost:8001", help="Triton's gRPC host:port; it may come up later")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on; 0.0.0.0 for every interface")
    parser.add_argument("--port", type=int, default=7860)
    parser.add_argument(
        "--default-guidance",
        choices=ON_OFF,
        default=DEFAULT_GUIDANCE,
        help="whether guidance without a negative prompt is ticked when the page is opened",
    )
    parser.add_argument(
        "--allowed-host", action="append", default=[], help="a name the page may be asked under, * for any"
    )
    options = parser.parse_args()
    try:
        app = fastapi.FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        mount(app, options.url, default_guidance=options.default_guidance)
    except InvalidRequest as error:
        parser.error(error.message)
    app.add_middleware(SameOriginMiddleware, hosts=allowed_hosts_for(options.host, options.allowed_host), origins=())
    serve(app, options.host, options.port, stop_s=_STOP_S, connections=Connections.from_settings(GatewaySettings()))


if __name__ == "__main__":
    main()
