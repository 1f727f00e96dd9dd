"""A server whose models compute one row at a time: the same request has the same bytes, whatever else is asked.

The last test ends it.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from build.settings import Settings
from qwen_image.launch.tritonserver import TritonServer
from tests.pictures import picture, png
from tests.servers import UNLOADING_S, serving
from tests.serving.processes import assert_all_ended_in_order
from tests.serving.raw import ask, statistics, stream, under_way

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

LONG = {"height": 512, "width": 512, "num_inference_steps": 150, "outputs": ("latents",)}


@pytest.fixture(scope="module")
def one_at_a_time(slow, tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """Its models compute one row at a time."""
    folder = tmp_path_factory.mktemp("one_at_a_time")
    with serving(tiny_checkpoint, folder, settings=ONE_AT_A_TIME, exit_timeout_s=UNLOADING_S) as running:
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


def test_a_bare_sigterm_refuses_what_is_in_flight_and_ends_cleanly(one_at_a_time):
    with ThreadPoolExecutor() as pool:
        next(stream(one_at_a_time, "a star", height=256, width=256, num_inference_steps=200))
        running = under_way(pool, one_at_a_time, **LONG)
        one_at_a_time.process.terminate()
        with pytest.raises(InferenceServerException, match="shutting down") as caught:
            running.result(60)
    assert caught.value.status() == "StatusCode.UNAVAILABLE"
    assert one_at_a_time.process.wait(150) == 0
    assert_all_ended_in_order(one_at_a_time)
