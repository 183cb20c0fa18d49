"""Requests and responses in gRPC's messages: tensors of every datatype in every form, errors, parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from lightbox.base import errors
from lightbox.core.pipeline import Pipeline
from lightbox.features.open_inference.grpc import messages as grpc_messages
from lightbox.features.open_inference.tensors import split_prefixed
from lightbox.images.limits import ImageLimits
from lightbox.model_runtime.wire.protobuf import varint
from support.fake_transport import FakeTransport
from support.fakes import mean_model, mean_server, signature
from support.grpc_front import BLUE, MAX_BYTES, RED, Caller, floats, images, make_pipeline, serving
from support.infer_requests import prefixed
from support.parameters import each

TYPED = {
    "bool": "bool_contents",
    **dict.fromkeys(("int8", "int16", "int32"), "int_contents"),
    "int64": "int64_contents",
    **dict.fromkeys(("uint8", "uint16", "uint32"), "uint_contents"),
    "uint64": "uint64_contents",
    "float32": "fp32_contents",
    "float64": "fp64_contents",
}
DTYPES = [*TYPED, "float16"]


@pytest.fixture
def transport() -> FakeTransport:
    fake = mean_server()
    for dtype in DTYPES:
        spec = signature(dtype, {"x": (dtype, (None, 2))}, {"y": (dtype, (None, 2)), "z": (dtype, (None, 2))})
        fake.serve(spec, lambda inputs: {"y": inputs["x"], "z": inputs["x"]})
    return fake


@pytest.fixture
def pipeline(transport: FakeTransport) -> Pipeline:
    return make_pipeline(transport, ["mean", *DTYPES])


@each("raw", [False, True])
def test_images_bare_or_prefixed(call: Caller, raw: bool) -> None:
    request = images(RED, BLUE)
    if raw:
        del request["inputs"][0]["contents"]
        request["raw_input_contents"] = [prefixed(RED, BLUE)]
    answer = call("ModelInfer", {**request, "id": "9", "parameters": {"priority": {"uint64_param": 1}}})
    assert floats(answer) == [200, 0, 0, 0, 0, 100]
    assert (answer.id, answer.model_name, answer.model_version) == ("9", "mean", "1")
    (output,) = answer.outputs
    assert (output.name, output.datatype, list(output.shape)) == ("mean", "FP32", [2, 3])


@each("dtype", DTYPES)
@each("raw", [False, True])
def test_every_datatype(call: Caller, transport: FakeTransport, dtype: str, raw: bool) -> None:
    array: Any = np.array([[0, 1], [1, 1]], dtype)
    entry: dict[str, Any] = {"name": "x", "datatype": dtype.upper().replace("FLOAT", "FP"), "shape": [2, 2]}
    request: dict[str, Any] = {"model_name": dtype, "inputs": [entry], "outputs": [{"name": "z"}]}
    if raw:
        request["raw_input_contents"] = [array.tobytes()]
    elif dtype == "float16":
        assert "no typed contents" in call.fails("ModelInfer", request)[1]
        return
    else:
        entry["contents"] = {TYPED[dtype]: array.ravel().tolist()}
    answer = call("ModelInfer", request)
    assert list(answer.raw_output_contents) == [array.tobytes()]
    assert [output.name for output in answer.outputs] == ["z"]
    assert transport.calls[-1].outputs == ("z",)


@pytest.mark.parametrize("raw", [False, True])
def test_strings_go_both_ways(transport: FakeTransport, tmp_path: Path, raw: bool) -> None:
    texts = [b"a", "ü".encode(), b"", b"\0\xff"]
    spec = signature("string", {"x": ("string", (None, 2))}, {"y": ("string", (None, 2))})
    transport.serve(spec, lambda inputs: {"y": inputs["x"]})
    entry: dict[str, Any] = {"name": "x", "datatype": "BYTES", "shape": [2, 2]}
    request: dict[str, Any] = {"model_name": "string", "inputs": [entry]}
    if raw:
        request["raw_input_contents"] = [prefixed(*texts)]
    else:
        entry["contents"] = {"bytes_contents": texts}
    with serving(make_pipeline(transport, ["string"]), tmp_path) as call:
        answer = call("ModelInfer", request)
    assert list(answer.raw_output_contents) == [prefixed(*texts)]
    assert (answer.outputs[0].datatype, list(answer.outputs[0].shape)) == ("BYTES", [2, 2])


def floats_input(**changes: Any) -> dict[str, Any]:
    contents = {"fp32_contents": [1, 2]}
    return {
        "model_name": "float32",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "contents": contents, **changes}],
    }


@each(
    ("request_", "words"),
    [
        (images(b"no image"), "Expected an image"),
        ({**images(RED), "raw_input_contents": [prefixed(RED)]}, "got both"),
        (floats_input(shape=[1, 3]), "holds 3 values, got 2"),
        (floats_input(shape=[1, 3], name="a name " * 50), " … name a name a name a name : shape [1, 3] holds 3 values"),
        (floats_input(shape=[2]), "expected shape [-1,2], got one of rank 1"),
        (floats_input(datatype="FP31"), "FP31"),
        (floats_input(datatype="FP64"), "comes in fp64_contents"),
        (floats_input(name="q"), "got q"),
        ({**floats_input(), "outputs": [{"name": "q"}]}, "got q"),
        ({"model_name": "float32"}, "got none"),
    ],
)
def test_what_cannot_be_used_is_said(call: Caller, request_: dict[str, Any], words: str) -> None:
    code, details = call.fails("ModelInfer", request_)
    assert code == "INVALID_ARGUMENT"
    assert words in details


@each(
    ("error", "code"),
    [
        (errors.Unavailable("x"), "UNAVAILABLE"),
        (errors.DeadlineExceeded("x"), "DEADLINE_EXCEEDED"),
        (errors.ModelFailed("x"), "INTERNAL"),
        (errors.TooLarge("x"), "RESOURCE_EXHAUSTED"),
        (RuntimeError("secret"), "INTERNAL"),
    ],
)
def test_errors_have_the_tables_status(call: Caller, transport: FakeTransport, error: Exception, code: str) -> None:
    def fail(inputs: Any) -> Any:
        raise error

    transport.serve(mean_model(), fail)
    found, details = call.fails("ModelInfer", images(RED))
    assert found == code
    assert "secret" not in details


@each(
    ("attributes", "code"),
    [
        ("tfs-model-version=7", "NOT_FOUND"),
        ("tfs-model-version=x", "INVALID_ARGUMENT"),
        ("tfs-method=x", "INVALID_ARGUMENT"),
    ],
)
def test_sagemakers_attributes_keep_their_meaning(call: Caller, attributes: str, code: str) -> None:
    metadata = (("x-amzn-sagemaker-custom-attributes", attributes),)
    assert call.fails("ModelInfer", images(RED), metadata=metadata)[0] == code


def test_errors_have_our_code_and_the_request_id_beside_them(call: Caller) -> None:
    rpc = call.future("ModelInfer", {"model_name": "none"}, metadata=(("x-request-id", "mine"),))
    assert rpc.code() is grpc.StatusCode.NOT_FOUND
    trailing = dict(rpc.trailing_metadata())
    assert (trailing["lightbox-code"], trailing["x-amzn-requestid"]) == ("model_not_found", "mine")


def test_parameters_of_every_kind_reach_the_users_code(transport: FakeTransport, tmp_path: Path) -> None:
    (tmp_path / "inference.py").write_text(
        "def postprocess(outputs, request):\n    return dict(request.custom_attributes)\n"
    )
    parameters = {
        "b": {"bool_param": True},
        "i": {"int64_param": -1},
        "s": {"string_param": "text"},
        "d": {"double_param": 0.5},
        "u": {"uint64_param": 2**63},
    }
    with serving(make_pipeline(transport, ["mean"], tmp_path), tmp_path) as call:
        answer = call("ModelInfer", images(RED) | {"parameters": parameters})
    assert (answer.outputs[0].name, answer.outputs[0].datatype) == ("answer", "BYTES")
    (body,) = split_prefixed(memoryview(answer.raw_output_contents[0]), 1) or [b""]
    assert json.loads(body) == {"b": "true", "i": "-1", "s": "text", "d": "0.5", "u": str(2**63)}


@each("field", ["inputs", "outputs", "parameters", "raw_input_contents"])
def test_more_than_a_model_can_have_is_refused_before_it_is_parsed(call: Caller, field: str) -> None:
    empty = grpc_messages.message_class("inference.ModelInferRequest").DESCRIPTOR.fields_by_name[field].number
    message = bytes([empty << 3 | 2, 0]) * (MAX_BYTES // 2)
    assert call.fails("ModelInfer", message) == ("RESOURCE_EXHAUSTED", f"{field}: expected at most 1024, got 1025")


def test_parameters_of_one_input_are_counted_too(call: Caller) -> None:
    many = {f"p{index}": {"int64_param": index} for index in range(1025)}
    assert call.fails("ModelInfer", floats_input(parameters=many)) == (
        "RESOURCE_EXHAUSTED",
        "parameters: expected at most 1024, got 1025",
    )


def test_fields_are_counted_all_together(call: Caller) -> None:
    shape_of_one = b"\x18\x01"  # field 3, not packed
    entry = shape_of_one * 1000
    message = (b"\x2a" + varint(len(entry)) + entry) * 20
    assert call.fails("ModelInfer", message) == (
        "RESOURCE_EXHAUSTED",
        "inference.ModelInferRequest.InferInputTensor: expected at most 16384 fields",
    )


@pytest.mark.parametrize("raw", [False, True])
def test_the_pixels_of_all_images_are_bounded_together(
    transport: FakeTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: bool
) -> None:
    def request(*bodies: bytes) -> dict[str, Any]:
        if not raw:
            return images(*bodies)
        entry = {"name": "image", "datatype": "BYTES", "shape": [len(bodies)]}
        return {"model_name": "mean", "inputs": [entry], "raw_input_contents": [prefixed(*bodies)]}

    monkeypatch.setattr(ImageLimits, "of", lambda pixels: ImageLimits(max_request_pixels=48))
    pipeline = make_pipeline(transport, ["mean"])
    with serving(pipeline, tmp_path) as call:
        assert floats(call("ModelInfer", request(*[RED] * 3))) == [200, 0, 0] * 3
        code, text = call.fails("ModelInfer", request(*[RED] * 4))
    assert (code, "image 4: " in text, "10 times LIGHTBOX_MAX_IMAGE_PIXELS" in text) == (
        "RESOURCE_EXHAUSTED",
        True,
        True,
    )
