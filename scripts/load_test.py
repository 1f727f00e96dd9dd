"""Many clients at once against the gateway, for minutes: nothing may be lost, wrong, or kept.

python -m scripts.load_test                      # 200 clients for 5 minutes, on the demo's checkpoint
python -m scripts.load_test --clients 20 --seconds 20

Starts a server and a gateway of its own, and ends with 1 if a promise of docs/benchmarks.md ("Load") was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import sys

from qwen_image.errors import QwenImageError
from qwen_image.launch.ports import Ports
from scripts.bench_report import surroundings
from scripts.load_clients import Load
from scripts.load_http import images_left
from scripts.load_memory import MemoryWatch
from scripts.load_report import Report
from scripts.progress import show
from scripts.serving import DEMO_CHECKPOINT, running_gateway, running_server


def main() -> int:
    options = arguments()
    versions = {name: importlib.metadata.version(name) for name in ("fastapi", "uvicorn")}
    found = surroundings(["python -m scripts.load_test", *sys.argv[1:]], versions)
    try:
        with running_server(DEMO_CHECKPOINT, Ports.free()) as server, running_gateway(server) as gateway:
            load = Load(gateway.url, options.clients, options.seconds)
            assert server.process is not None
            with MemoryWatch([server.process.pid, gateway.process.pid]) as memory:
                outcomes = asyncio.run(load.run())
            report = Report(outcomes, memory.samples, images_left(server.metrics_url))
    except QwenImageError as error:
        show(f"error: {error}\n")
        return 1
    print("\n".join(f"{name}: {value}" for name, value in found.items()))
    print(f"\n{report.table()}")
    for promise in report.broken():
        show(f"broken: {promise}\n")
    return 1 if report.broken() else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200, help="that each have one request out, all the time")
    parser.add_argument("--seconds", type=float, default=300)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
