"""Pictures in requests: what is refused, what is filled in, and that streams do the same."""

from __future__ import annotations

import io
import re
import uuid
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tritonclient.utils import InferenceServerException

from tests.pictures import levels_apart, picture, png, right_half
from tests.servers import unlimited_grant
from tests.serving.processes import stubs_of
from tests.serving.raw import ask, call_inside, stream

START, MASK = png(picture(96, 64)), png(right_half(96, 64))
SMALL = {"height": 64, "width": 96, "num_inference_steps": 4, "seed": 1}


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"input_image": b"no picture"},
            r"input_image 0 of row 0 is no picture that is known here .* send the bytes of a PNG or JPEG",
        ),
        ({"input_image": START[:200]}, r"input_image 0 of row 0"),
        ({"input_image": START, "mask_image": b"GIF89a"}, r"mask_image of row 0"),
        ({"input_image": [[START, START]]}, r"input_image of row 0 has 2 pictures; a QwenImagePipeline takes 0 to 1"),
        ({"strength": 0.5}, r"strength=0\.5 of row 0 comes without input_image"),
        ({"mask_image": MASK}, r"mask_image of row 0 comes without input_image"),
        ({"input_image": START, "strength": 0.0}, r"strength=0 must be above 0 and at most 1"),
        ({"input_image": START, "strength": 1.5}, r"strength=1\.5 must be above 0 and at most 1"),
        ({"input_image": START, "strength": float("nan")}, r"strength=nan must be above 0 and at most 1"),
    ],
)
def test_what_can_not_be_painted_is_refused_with_what_is_allowed(server, protocol, given, message):
    with pytest.raises(InferenceServerException, match=message) as caught:
        ask(server, "a star", protocol=protocol, **SMALL, **given)
    assert caught.value.status() in ("StatusCode.INVALID_ARGUMENT", "400")


def test_a_bad_picture_harms_no_other_request(server, at_once):
    def one(position: int):
        try:
            return ask(server, "a star", **SMALL, input_image=b"broken" if position % 2 else START)["image"]
        except InferenceServerException as error:
            return error

    answers = at_once(one, range(8))
    assert [isinstance(each, InferenceServerException) for each in answers] == [False, True] * 4
    whole = np.stack(answers[::2]).astype(int)
    assert levels_apart(whole, np.broadcast_to(whole[0], whole.shape)) <= 1


def test_a_bad_row_is_named(server):
    with pytest.raises(InferenceServerException, match=r"input_image 0 of row 1"):
        ask(server, ["a star", "a cat"], **SMALL, input_image=[[START], [b"broken"]])


@pytest.mark.parametrize(
    ("size", "expected"), [((200, 200), (128, 128)), ((300, 100), (80, 224)), ((90, 160), (176, 96))]
)
def test_a_result_has_the_shape_of_the_picture_it_starts_from(server, size, expected):
    wanted = ("image", "used_height", "used_width")
    found = ask(server, "a star", num_inference_steps=2, input_image=png(picture(*size)), outputs=wanted)
    assert found["image"].shape[1:3] == expected
    assert (found["used_height"], found["used_width"]) == expected


def test_a_picture_so_long_that_its_result_would_be_too_narrow_is_named_and_a_size_helps(server):
    long = png(picture(332, 27))
    message = r"input_image 0 of row 0 is 332x27: a result of its shape would be \d+x\d+, .* 64 to 2048 pixels; crop"
    with pytest.raises(InferenceServerException, match=message):
        ask(server, "a star", input_image=long)
    assert ask(server, "a star", input_image=long, **SMALL)["image"].shape == (1, 64, 96, 3)


def test_without_a_mask_all_of_it_was_painted(server):
    mask = ask(server, "a star", **SMALL, outputs=("mask",))["mask"]
    assert mask.shape == (1, 1, 1)
    assert mask.item() == 255


def test_a_strength_of_its_own_for_every_row(server):
    given = {"input_image": START, "strength": [0.25, 1.0]}
    found = ask(server, ["a star", "a star"], **SMALL, **given, outputs=("used_num_inference_steps", "image"))
    assert found["used_num_inference_steps"].ravel().tolist() == [1, 4]
    start = np.asarray(picture(96, 64)).astype(int)
    near, far = (np.abs(row.astype(int) - start).mean() for row in found["image"])
    assert near < far


def test_a_stream_ends_in_the_unary_picture_and_keeps_what_the_mask_keeps_all_the_way(server):
    given = {"input_image": START, "mask_image": MASK, "strength": 0.75}
    *previews, last = stream(server, "a star", **SMALL, **given)
    unary = ask(server, "a star", **SMALL, **given)["image"]
    assert levels_apart(last["image"], unary) <= 1
    assert [int(each["step"].item()) for each in (*previews, last)] == [1, 2, 3]
    kept = np.asarray(picture(96, 64))[:, :48]
    assert all(np.array_equal(each["image"][0, :, :48], kept) for each in (*previews, last))


def test_an_edit_streams_too(edit_server):
    given = {"num_inference_steps": 3, "seed": 2, "input_image": [[START, png(picture(64, 64, 1))]]}
    *_, last = stream(edit_server, "make it blue", model="qwen_image_edit_stream", **given)
    unary = ask(edit_server, "make it blue", model="qwen_image_edit", **given)["image"]
    assert levels_apart(last["image"], unary) <= 1


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([[b""]], r"input_image of row 0 has 0 pictures; a QwenImageEditPlusPipeline takes 1 to 3"),
        ([[START] * 4], r"input_image of row 0 has 4 pictures; a QwenImageEditPlusPipeline takes 1 to 3"),
        ([[START, b"broken"]], r"input_image 1 of row 0"),
    ],
)
def test_an_edit_wants_so_many_pictures(edit_server, files, message):
    with pytest.raises(InferenceServerException, match=message):
        ask(edit_server, "make it blue", model="qwen_image_edit", input_image=files)


def test_rows_whose_pictures_ask_for_different_sizes_are_refused_unless_a_size_is_given(edit_server):
    files = [[png(picture(128, 128))], [png(picture(200, 100))]]
    with pytest.raises(InferenceServerException, match=r"different sizes \(128x128, 192x96\).* give height and width"):
        ask(edit_server, ["a", "b"], model="qwen_image_edit", input_image=files)
    image = ask(edit_server, ["a", "b"], model="qwen_image_edit", input_image=files, **SMALL)["image"]
    assert image.shape == (2, 64, 96, 3)


def test_edits_of_all_shapes_at_once_equal_their_solo_runs(edit_server, at_once):
    cases = [
        {
            "input_image": [[png(picture(128, 128, seed))] * (1 + seed % 2)],
            "seed": seed,
            "num_inference_steps": 2 + seed,
        }
        for seed in range(4)
    ]

    def edit(case):
        return ask(edit_server, "make it blue", model="qwen_image_edit", **case)["image"]

    for together, case in zip(at_once(edit, cases), cases, strict=True):
        assert levels_apart(together, edit(case)) <= 1


def jpeg(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG")
    return buffer.getvalue()


def most_resident_bytes(server, model: str) -> int:
    """The most that a process of the model has ever held."""
    statuses = (Path(f"/proc/{stub.pid}/status").read_text() for stub in stubs_of(server, model))
    return max(int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024 for status in statuses)


def test_large_pictures_are_not_held_together(edit_server):
    sides = [2048 - row for row in range(8)]
    files = [[jpeg(picture(side, side, seed)) for seed in range(3)] for side in sides]
    decoded = sum(3 * 3 * side**2 for side in sides)
    before = most_resident_bytes(edit_server, "validator")
    given = {"input_image": files, "num_inference_steps": 1, "height": 64, "width": 64}
    ask(edit_server, ["a"] * 8, model="qwen_image_edit", **given)
    assert most_resident_bytes(edit_server, "validator") - before < decoded / 3


def test_rows_that_share_files_in_another_order_equal_their_solo_runs(edit_server):
    one, two = (png(picture(96, 64, seed)) for seed in (1, 2))
    rows, given = [[one, two], [two, one], [one, one], [two, b""]], {**SMALL, "outputs": ("latents",)}
    together = ask(edit_server, ["a"] * 4, model="qwen_image_edit", input_image=rows, **given)["latents"]
    alone = [ask(edit_server, "a", model="qwen_image_edit", input_image=[row], **given)["latents"][0] for row in rows]
    assert all(np.abs(one - other).max() < 1e-4 for one, other in zip(together, alone, strict=True))
    assert all(np.abs(alone[0] - other).max() > 1e-3 for other in alone[1:])


def test_rows_that_share_a_picture_keep_what_their_own_masks_keep(server):
    left, right = (
        png(each) for each in (right_half(96, 64).transpose(Image.Transpose.FLIP_LEFT_RIGHT), right_half(96, 64))
    )
    files = {"input_image": [[START]] * 3, "mask_image": [right, left, right]}
    image = ask(server, ["a star"] * 3, **SMALL, strength=1.0, **files)["image"]
    start = np.asarray(picture(96, 64))
    kept = [(np.array_equal(row[:, :48], start[:, :48]), np.array_equal(row[:, 48:], start[:, 48:])) for row in image]
    assert kept == [(True, False), (False, True), (True, False)]


def test_no_pixel_is_decoded_for_a_request_that_is_refused_anyway(server):
    cut_off = jpeg(picture(96, 64))[:-60]
    with pytest.raises(InferenceServerException, match=r"input_image 0 of row 0 can't be read"):
        ask(server, "a star", input_image=cut_off)
    with pytest.raises(InferenceServerException, match=r"num_inference_steps=0 must be"):
        ask(server, "a star", input_image=cut_off, num_inference_steps=0)


def test_a_mask_of_another_size_harms_no_batch_mate_of_the_decoder(server, at_once):
    def decode(side: int):
        arrays = {
            "latents": np.zeros((1, 16, 1, 8, 8), np.float32),
            "kept_image": np.zeros((1, side, side, 3), np.uint8),
            "mask": np.zeros((1, side, side), np.uint8),
        }
        return infer(server, "vae_decoder", arrays, "image")

    *kept, refused = at_once(decode, [64, 64, 64, 32])
    assert all(not image.any() for image in kept)
    with pytest.raises(InferenceServerException, match=r"mask is \(32, 32\) .* both must be \(64, 64\) or \(1, 1\)"):
        raise refused


def test_an_edit_of_too_long_a_picture_is_refused_with_its_size(edit_server):
    with pytest.raises(InferenceServerException, match=r"500x100 would be seen as 288x64; .* 256 pixels at most: crop"):
        ask(edit_server, "a", model="qwen_image_edit", input_image=[[png(picture(500, 100))]], **SMALL)


def test_pictures_that_do_not_fit_their_grid_harm_no_batch_mate_of_the_transformer(server, at_once):
    def step(tokens: int):
        arrays = {
            "image_id": np.array([[uuid.uuid4().hex.encode()]], np.object_),
            "seed": np.array([[1]]),
            "grid": np.array([[4, 4]], np.int32),
            "sigmas": np.array([[1.0, 0.5]], np.float32),
            "true_cfg_scale": np.array([[1.0]], np.float32),
            "prompt_embeds": np.zeros((1, 5, 64), np.float32),
            "negative_prompt_embeds": np.zeros((1, 0, 64), np.float32),
            "start_latents": np.zeros((1, 16, 64), np.float32),
            "start_deviation": np.zeros((1, 16, 64), np.float32),
            "start_mask": np.ones((1, tokens, 64), np.float32),
        }
        return infer(server, "dit", arrays, "latents")

    *good, refused = at_once(step, [16, 16, 16, 15])
    assert all(each.shape == (1, 16, 64) for each in good)
    with pytest.raises(
        InferenceServerException, match=r"start_mask has shape \[15, 64\]; grids of \(4, 4\) need \[16, 64\]"
    ):
        raise refused


def infer(server, model: str, arrays, output: str):
    """One call of an inner model as another one makes it: an output, or the error."""
    try:
        granted = arrays | {"grant": np.array([[unlimited_grant(server)]], np.object_)}
        return call_inside(server, model, granted).as_numpy(output)
    except InferenceServerException as error:
        return error
