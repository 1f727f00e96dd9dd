"""Writes the client's blocking modules from their asyncio twins, which are the source.

`.venv/bin/python -m scripts.unasync` rewrites them; a test says when they are not current.
"""

import re
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "clients" / "qwen_image_client"
SOURCES = ("_async_client.py", "_async_dispatcher.py", "_async_transport.py")
COMMAND = ".venv/bin/python -m scripts.unasync"
SYNTAX = (
    (r"await asyncio\.shield\((.*)\)  # .*", r"\1"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAwaitable\[(\w+)\]", r"\1"),
    (r"\bAsyncGenerator\[(\w+), None\]", r"Generator[\1, None, None]"),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\baclosing\b", "closing"),
    (r"\basyncio\b", "time"),  # sleep() of both
    (r"\bAsync(?=[A-Z])", ""),
    (r"(?<=_)async_", ""),
)
SENTENCES = (
    ('"""The asyncio client.', '"""The blocking client.'),
    ("on asyncio", "blocking"),
    ("A connection to one server, on one event loop.", "A connection to one server."),
    (
        "Use it as an async context manager; share it between tasks.",
        "Use it as a context manager; it is safe to share between threads.",
    ),
    (", or whose task is cancelled, cancels", " or is interrupted (Ctrl-C) cancels"),
    ("    Images given as paths are read before anything is awaited.\n", ""),
    (
        "A loop that may be left early needs `contextlib.aclosing` around the iterator: "
        "it cancels the request at once.",
        "Closing the iterator, or leaving its loop, cancels the request.",
    ),
    ("One connection, on one event loop, and all", "One connection and all"),
    ("Bound to the event loop that first uses it.", "Safe to use from several threads at once."),
)


def twin_path(source: Path) -> Path:
    """The blocking module's file."""
    return source.with_name(source.name.replace("_async_", "_"))


def blocking_twin(source: Path) -> str:
    """The blocking module's text."""
    text = source.read_text()
    for asynchronous, blocking in SENTENCES:
        text = text.replace(asynchronous, blocking)
    for pattern, replacement in SYNTAX:
        text = re.sub(pattern, replacement, text)
    text = f"# Generated from {source.name}: edit that, then run {COMMAND}\n{text}"
    return _ruff("format", _ruff("check", text, "--quiet", "--fix", "--select", "I,F401"))


def _ruff(command: str, text: str, *options: str) -> str:
    arguments = [sys.executable, "-m", "ruff", command, *options, "--stdin-filename", str(CLIENT / "twin.py"), "-"]
    return subprocess.run(arguments, input=text, capture_output=True, text=True, check=True).stdout


def main() -> None:
    for name in SOURCES:
        source = CLIENT / name
        twin_path(source).write_text(blocking_twin(source))


if __name__ == "__main__":
    main()
