"""The same call, as the protobuf message and as the HTTP body that Triton reads."""

import json

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from qwen_image_client import GenerationRequest, InvalidRequest, ServerError, _grpc, _http
from qwen_image_client._address import Address, Connection
from qwen_image_client._call import Call, Models
from qwen_image_client._job import Job
from qwen_image_client._request import expand_edits, expand_requests
from qwen_image_client._tensors import USED_OUTPUTS


def call(**options):
    return Job.unary(Models(), expand_requests("a", **options), ("latents",), "id-1").call


def test_grpc_carries_tensors_as_raw_bytes_in_order():
    request = _grpc.infer_request(call(seed=3, sigmas=[1.0, 0.5]))
    assert (request.model_name, request.id) == ("qwen_image", "id-1")
    described = [(tensor.name, tensor.datatype, list(tensor.shape)) for tensor in request.inputs]
    assert described == [("prompt", "BYTES", [1, 1]), ("seed", "INT64", [1, 1]), ("sigmas", "FP32", [1, 2])]
    prompt, seed, sigmas = request.raw_input_contents
    assert prompt == b"\x01\x00\x00\x00a"
    assert np.frombuffer(seed, np.int64).tolist() == [3]
    assert np.frombuffer(sigmas, np.float32).tolist() == [1.0, 0.5]


def test_only_the_outputs_wanted_are_asked_for():
    request = _grpc.infer_request(call())
    used = ["used_seed", "used_num_inference_steps", "used_true_cfg_scale", "used_width", "used_height"]
    assert [output.name for output in request.outputs] == ["latents", *used]


def test_http_carries_the_same_tensors_after_a_json_header():
    connection = Connection(Address.parse("https://host/base"), {"Authorization": "Bearer x"})
    request = _http.infer_request(call(seed=3), connection)
    length = int(request.headers["Inference-Header-Content-Length"])
    header = json.loads(request.body[:length])
    assert request.path == "/base/v2/models/qwen_image/infer"
    assert request.headers["Authorization"] == "Bearer x"
    assert header["id"] == "id-1"
    assert [(tensor["name"], tensor["datatype"], tensor["shape"]) for tensor in header["inputs"]] == [
        ("prompt", "BYTES", [1, 1]),
        ("seed", "INT64", [1, 1]),
    ]
    assert request.body[length:] == b"\x01\x00\x00\x00a" + np.int64(3).tobytes()


def test_cancel_carries_the_id_without_a_batch_dimension():
    cancel = Models("other").cancel_call("id-1")
    assert (cancel.model, cancel.inputs["request_id"].tolist(), cancel.outputs) == (
        "other_cancel",
        [b"id-1"],
        ("cancelled",),
    )


def test_an_answer_that_is_no_inference_result_is_a_server_error():
    with pytest.raises(ServerError, match="no inference result"):
        _http.tensors(_http.HttpResponse(200, {}, b"<html>"), Call("m", {}, ("seed",), "id-1"))


def test_a_server_with_an_output_more_is_read_as_ever():
    names = ("used_seed", "used_adapter")
    outputs = [{"name": name, "datatype": "INT64", "shape": [1, 1], "data": [7]} for name in names]
    body = json.dumps({"model_name": "qwen_image", "outputs": outputs}).encode()
    wanted = Call("qwen_image", {}, ("used_seed",), "id-1")
    assert _http.tensors(_http.HttpResponse(200, {}, body), wanted) == {"used_seed": [[7]]}
    response = service_pb2.ModelInferResponse(raw_output_contents=[np.int64(7).tobytes()] * 2)
    for name in names:
        response.outputs.add(name=name, datatype="INT64", shape=[1, 1])
    assert _grpc.tensors(response, wanted) == {"used_seed": [[7]]}


def test_an_error_message_inside_a_stream_is_an_error():
    message = service_pb2.ModelStreamInferResponse(error_message="the engine broke")
    with pytest.raises(ServerError, match="the engine broke"):
        _grpc.stream_tensors(message, call())


@pytest.mark.parametrize("outputs", ["image", ("pixels",), ("image", "seed")])
def test_an_output_that_does_not_exist_is_refused(outputs):
    with pytest.raises(InvalidRequest, match="outputs="):
        Job.unary(Models(), expand_requests("a"), outputs, None)


def test_an_edit_goes_to_its_own_models():
    rows = expand_edits("a", [b"one", b"two"])
    assert Job.unary(Models(), rows, (), None, "edit").call.model == "qwen_image_edit"
    streaming = Job.streaming(Models(), rows, (), None, task="edit").call
    assert streaming.model == "qwen_image_edit_stream"
    assert streaming.inputs["input_image"].tolist() == [[b"one", b"two"]]


@pytest.mark.parametrize(
    ("row", "words"), [({"strength": 0.5}, "strength"), ({"mask_image": b"m"}, "mask_image"), ({}, "needs input_image")]
)
def test_a_row_that_is_no_edit_is_refused(row, words):
    pictures = {"input_image": b"a"} if row else {}
    with pytest.raises(InvalidRequest, match=words):
        Job.unary(Models(), [GenerationRequest(prompt="a", **pictures, **row)], (), None, "edit")


def test_a_mask_that_was_sent_comes_back_with_the_image():
    def outputs(wanted, **options):
        rows = expand_requests("a", image=b"start", **options)
        return Job.unary(Models(), rows, wanted, None).call.outputs[: -len(USED_OUTPUTS)]

    assert outputs(("image",), mask_image=b"m") == ("image", "mask")
    assert outputs(("image",)) == ("image",)
    assert outputs(("image", "mask")) == ("image", "mask")
    assert outputs(("latents",), mask_image=b"m") == ("latents",)


def test_a_stream_and_an_edit_have_no_mask_to_ask_for():
    rows = expand_requests("a", image=b"start", mask_image=b"m")
    assert "mask" not in Job.streaming(Models(), rows, ("image",), None).call.outputs
    with pytest.raises(InvalidRequest, match="only `generate` gives a mask"):
        Job.streaming(Models(), rows, ("image", "mask"), None)
    with pytest.raises(InvalidRequest, match="only `generate` gives a mask"):
        Job.unary(Models(), expand_edits("a", b"one"), ("mask",), None, "edit")


@pytest.mark.parametrize(
    ("outputs", "given", "sent"),
    [
        (("image",), {}, {}),
        (("image",), {"preview_every": 2}, {"preview_every": [[2]]}),
        (("image",), {"num_previews": 0}, {"num_previews": [[0]]}),
        (("latents",), {"num_previews": 3}, {"preview_every": [[0]]}),
        ((), {}, {"preview_every": [[0]]}),
    ],
)
def test_a_stream_says_which_steps_to_decode(outputs, given, sent):
    inputs = Job.streaming(Models(), expand_requests("a"), outputs, None, **given).call.inputs
    assert {name: tensor.tolist() for name, tensor in inputs.items() if name != "prompt"} == sent
    assert all(tensor.dtype == np.int32 for name, tensor in inputs.items() if name != "prompt")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"preview_every": 2, "num_previews": 3}, "preview_every=2 and num_previews=3: give one of them"),
        ({"num_previews": 1.5}, "num_previews=1.5 must be an integer"),
    ],
)
def test_a_stream_that_says_it_wrong_is_refused(given, words):
    with pytest.raises(InvalidRequest, match=words):
        Job.streaming(Models(), expand_requests("a"), ("image",), None, **given)


def test_request_ids_are_random():
    ids = {Job.unary(Models(), expand_requests("a"), (), None).call.request_id for _ in range(100)}
    assert len(ids) == 100
