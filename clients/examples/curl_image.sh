#!/bin/sh
# An image that starts from a picture, over plain HTTP with curl, and Python with pillow to write the PNG.
#   usage: curl_image.sh http://localhost:8000 picture.jpg result.png
set -eu
url=$1
picture=$2
output=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# JSON can't carry a file's bytes, so the picture follows it: 4 bytes of length, least first, then the file.
size=$(($(wc -c <"$picture")))
cat >"$folder/json" <<JSON
{
  "inputs": [
    {"name": "prompt", "shape": [1, 1], "datatype": "BYTES", "data": ["a red circle on a white wall"]},
    {"name": "strength", "shape": [1, 1], "datatype": "FP32", "data": [0.5]},
    {"name": "num_inference_steps", "shape": [1, 1], "datatype": "INT32", "data": [8]},
    {"name": "input_image", "shape": [1, 1], "datatype": "BYTES",
     "parameters": {"binary_data_size": $((size + 4))}}
  ],
  "outputs": [
    {"name": "used_seed"},
    {"name": "image", "parameters": {"binary_data": true}}
  ]
}
JSON
byte() { printf '%b' "\\0$(printf %o $((size >> $1 & 255)))"; }
{
    cat "$folder/json"
    byte 0 && byte 8 && byte 16 && byte 24
    cat "$picture"
} >"$folder/request"

curl --silent --show-error --fail-with-body --dump-header "$folder/headers" --output "$folder/body" \
    "$url/v2/models/qwen_image/infer" --data-binary "@$folder/request" \
    --header "Content-Type: application/octet-stream" \
    --header "Inference-Header-Content-Length: $(($(wc -c <"$folder/json")))" \
    || { cat "$folder/body" >&2 || true; exit 1; }

python3 - "$folder" "$output" <<'PYTHON'
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
