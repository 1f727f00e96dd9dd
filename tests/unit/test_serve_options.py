"""The options of `scripts/serve`: every setting, and the gateway's, refused before anything is loaded."""

from __future__ import annotations

import pytest

from scripts.serve_options import read_options


def test_a_profile_brings_its_defaults_and_the_gateway_gets_its_options():
    keys = ["--max-requests", "3", "--served-model-name", "gpt-image-1", "--served-model-name", "dall-e-3"]
    options, for_gateway = read_options(["--profile", "gpu", "--max-side", "1328", "--page", *keys])
    assert (options.device, options.engine, options.max_side, options.gateway) == ("cuda", "tensorrt", 1328, True)
    assert (options.host, options.triton_host) == ("127.0.0.1", "127.0.0.1")
    assert for_gateway == [*keys, "--page"]


def test_a_hugging_face_id_is_a_name_of_the_model_too():
    _, for_gateway = read_options(["--gateway", "--checkpoint", "Qwen/Qwen-Image"])
    assert for_gateway == ["--served-model-name", "Qwen/Qwen-Image"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--host", "0.0.0.0"], "there is no --gateway; for Triton it is --triton-host"),
        (["--api-keys", "keys"], "unrecognized arguments: --api-keys keys (options of the gateway need --gateway"),
        (["--gateway", "--max-requests", "0"], "max_requests=0 must be more than 0"),
        (["--gateway", "--max-reqests", "1"], "unrecognized arguments: --max-reqests 1"),
        (["--grpc-port", "65536"], "'65536' must be a whole number from 1 to 65535"),
    ],
)
def test_wrong_options_are_refused(options, words, capsys):
    with pytest.raises(SystemExit) as ended:
        read_options(options)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
