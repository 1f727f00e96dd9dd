#!/bin/sh
# An image over plain HTTP, with nothing but curl, and Python with pillow to write the PNG.
#   usage: curl.sh http://localhost:8000 circle.png
set -eu
url=$1
output=$2
answer=$(mktemp -d)
trap 'rm -rf "$answer"' EXIT

# The seed comes back in the JSON; the image comes as raw bytes after it, since JSON would spell out every byte.
curl --silent --show-error --fail-with-body --dump-header "$answer/headers" --output "$answer/body" \
    "$url/v2/models/qwen_image/infer" --json '{
      "inputs": [
        {"name": "prompt", "shape": [1, 1], "datatype": "BYTES", "data": ["a red circle on a white wall"]},
        {"name": "height", "shape": [1, 1], "datatype": "INT32", "data": [128]},
        {"name": "width", "shape": [1, 1], "datatype": "INT32", "data": [128]},
        {"name": "num_inference_steps", "shape": [1, 1], "datatype": "INT32", "data": [4]}
      ],
      "outputs": [
        {"name": "used_seed"},
        {"name": "image", "parameters": {"binary_data": true}}
      ]
    }' || { cat "$answer/body" >&2 || true; exit 1; }

python3 - "$answer" "$output" <<'PYTHON'
import json
import sys
from pathlib import Path

from PIL import Image

answer, output = Path(sys.argv[1]), sys.argv[2]
headers = dict(line.lower().split(": ", 1) for line in (answer / "headers").read_text().splitlines() if ": " in line)
body = (answer / "body").read_bytes()
json_bytes = int(headers["inference-header-content-length"])
outputs = {tensor["name"]: tensor for tensor in json.loads(body[:json_bytes])["outputs"]}
_, height, width, _ = outputs["image"]["shape"]
Image.frombytes("RGB", (width, height), body[json_bytes:]).save(output)
print(f"{output}: seed {outputs['used_seed']['data'][0]}")
PYTHON
