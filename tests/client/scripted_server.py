"""A real HTTP server that answers as its script says, for what the client does about refusals and silence."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GENERATE = "/v2/models/qwen_image/infer"
CANCEL = "/v2/models/qwen_image_cancel/infer"
USED = {
    "seed": ("INT64", 7),
    "num_inference_steps": ("INT32", 4),
    "true_cfg_scale": ("FP32", 1.0),
    "width": ("INT32", 16),
    "height": ("INT32", 16),
}


def refusal(status: int, message: str) -> tuple[int, bytes]:
    return status, json.dumps({"error": message}).encode()


def one_image() -> tuple[int, bytes]:
    """The answer to a call with `outputs=()` for one row."""
    outputs = [
        {"name": f"used_{name}", "datatype": datatype, "shape": [1, 1], "data": [value]}
        for name, (datatype, value) in USED.items()
    ]
    return 200, json.dumps({"outputs": outputs}).encode()


@dataclass
class ScriptedServer:
    """Answers generate calls from `script`, in order; past its end it stays silent until `stop`.

    Attributes:
        configs: the answer to whoever asks for a model's configuration, by the model's name.
        requests: the JSON header of every generate call that arrived.
        cancelled: the request ids that were cancelled.
    """

    script: Sequence[tuple[int, bytes]]
    configs: Mapping[str, tuple[int, bytes]]
    url: str = ""
    requests: list[dict[str, object]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)

    def answer(self, path: str, header: dict[str, object], binary: bytes) -> tuple[int, bytes]:
        if path == CANCEL:
            self.cancelled.append(binary[4:].decode())
            output = {"name": "cancelled", "datatype": "INT32", "shape": [1], "data": [1]}
            return 200, json.dumps({"outputs": [output]}).encode()
        self.requests.append(header)
        self.arrived.set()
        if len(self.requests) > len(self.script):
            self.stop.wait()
            return refusal(499, "ended")
        return self.script[len(self.requests) - 1]


@contextmanager
def scripted_server(
    *script: tuple[int, bytes], configs: Mapping[str, tuple[int, bytes]] | None = None
) -> Iterator[ScriptedServer]:
    state = ScriptedServer(script, configs or {})

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            length = int(self.headers["Inference-Header-Content-Length"])
            self.write(*state.answer(self.path, json.loads(body[:length]), body[length:]))

        def do_GET(self) -> None:
            model, _ = self.path.removeprefix("/v2/models/").split("/")
            self.write(*state.configs[model])

        def write(self, status: int, content: bytes) -> None:
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                pass  # the client has left, as some tests want

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        state.stop.set()
        server.shutdown()
        server.server_close()
        thread.join()
