"""A server whose models compute one row at a time: the same request has the same bytes, whatever else is asked."""

from __future__ import annotations

import numpy as np
import pytest

from build.settings import Settings
from tests.pictures import picture, png
from tests.servers import serving
from tests.serving.raw import ask, statistics

ONE_AT_A_TIME = Settings(
    dit_max_batch_size=1,
    text_encoder_max_num_seqs=1,
    text_encoder_cache_bytes=0,  # so that states are computed anew
)
# Of one size, so that elsewhere they would share batches; lengths, guidance and step counts differ.
REQUESTS = [
    {"prompt": "a star", "num_inference_steps": 4, "seed": [1, 2, 3]},
    {"prompt": "a red circle above a blue square on a yellow background " * 4, "num_inference_steps": 3, "seed": [4]},
    {"prompt": "a cat", "negative_prompt": "blurry, low quality", "num_inference_steps": 5, "seed": [5]},
    {"prompt": "a dog", "input_image": png(picture(96, 64)), "strength": 0.6, "num_inference_steps": 6, "seed": [6]},
]


@pytest.fixture(scope="module")
def one_at_a_time(tiny_checkpoint, tmp_path_factory):
    with serving(tiny_checkpoint, tmp_path_factory.mktemp("one_at_a_time"), settings=ONE_AT_A_TIME) as running:
        yield running


def paint(server, request):
    rows = len(request["seed"])
    given = {name: value for name, value in request.items() if name != "prompt"}
    return ask(server, [request["prompt"]] * rows, height=64, width=96, outputs=("image", "latents"), **given)


def test_a_busy_server_gives_the_bytes_of_an_idle_one(one_at_a_time, at_once):
    alone = [paint(one_at_a_time, request) for request in REQUESTS]
    busy = at_once(lambda request: paint(one_at_a_time, request), REQUESTS * 4)
    for number, found in enumerate(busy):
        expected = alone[number % len(REQUESTS)]
        assert np.array_equal(found["latents"], expected["latents"])
        assert np.array_equal(found["image"], expected["image"])
    assert {batch.batch_size for batch in statistics(one_at_a_time, "dit").batch_stats} == {1}
