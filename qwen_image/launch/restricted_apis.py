"""Triton's APIs for administrators, closed to callers of both protocols: shared memory, traces, logs, model control.

Whoever may register shared memory can read the requests of others out of the server's own regions, and end the server.
Health, metadata, configurations, statistics and inference stay open. Standard library only.
"""

from __future__ import annotations

import os
import secrets
import sys

APIS = ("shared-memory", "trace", "logging", "model-repository")
OPTIONS = ("--http-restricted-api", "--grpc-restricted-protocol")
HEADER = "closed"


def closing_options() -> list[str]:
    """The options of one tritonserver.

    The secret is drawn for this run and kept by nobody. It ends in a line break, which no header can carry: what `ps`
    shows to other users of the machine opens nothing either.
    """
    secret = f"{secrets.token_urlsafe(32)}\n"
    return [f"{option}={','.join(APIS)}:{HEADER}={secret}" for option in OPTIONS]


def main() -> None:
    """`python -m qwen_image.launch.restricted_apis tritonserver ...` becomes that command, with these APIs closed."""
    command = sys.argv[1:]
    if not command:
        sys.exit("usage: python -m qwen_image.launch.restricted_apis tritonserver [OPTION ...]")
    os.execvp(command[0], [*command, *closing_options()])


if __name__ == "__main__":
    main()
