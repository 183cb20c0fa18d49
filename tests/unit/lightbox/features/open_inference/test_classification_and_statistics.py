"""Triton's extensions over a fake model server: classes, configuration and statistics, REST and gRPC alike."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient
from google.protobuf.json_format import MessageToDict

from lightbox.base.errors import BadRequest, TooLarge
from lightbox.base.request_context import MemoryBudget, Share
from lightbox.core.request import TensorResponse
from lightbox.features.open_inference.classification import classified
from lightbox.features.open_inference.dataplane import InferRequest
from lightbox.features.open_inference.rest.routes import encode_response
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array
from support.fake_transport import FakeTransport
from support.fakes import fake_app, signature
from support.grpc_front import Caller, make_pipeline, serving
from support.infer_requests import infer, numbers
from support.parameters import each

SCORES = [[0.1, 0.7, 0.2], [0.5, 0.25, 0.25]]
ONE = signature("one", {"x": ("float32", (None, 3))}, {"y": ("float32", (None, 3)), "s": ("string", (None,))})
KINDS = signature("kinds", {"a": ("string", None), "b": ("float16", ())}, {"c": ("bool", (None,)), "d": ("int8", (2,))})


@dataclass
class Forms:
    """The same service over REST and gRPC."""

    rest: FlaskClient
    grpc: Caller

    def get(self, path: str) -> tuple[int, Any]:
        answer = self.rest.get(path)
        return answer.status_code, answer.get_json()


@pytest.fixture
def forms(tmp_path: Path) -> Iterator[Forms]:
    fake = FakeTransport()
    fake.serve(ONE, lambda inputs: {"y": inputs["x"], "s": np.array([b"a"] * len(inputs["x"]), object)})
    fake.serve(KINDS, lambda inputs: {})
    rest = fake_app(fake, {"one": ModelOptions(), "kinds": ModelOptions()}).test_client()
    with serving(make_pipeline(fake, ["one", "kinds"]), tmp_path) as caller:
        yield Forms(rest, caller)


def as_json(message: Any) -> Any:
    """Return a message with all its fields. 64-bit numbers, which are text in protobuf's JSON, are numbers."""
    return numbers(MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True))


def ask(forms: Forms, count: Any, output: str = "y") -> Any:
    tensor = {"name": "x", "shape": [2, 3], "datatype": "FP32", "data": SCORES}
    named = {"name": output, "parameters": {"classification": count}}
    return infer(forms.rest, "one", {"inputs": [tensor], "outputs": [named]})


def test_the_best_classes_of_an_output(forms: Forms) -> None:
    texts = ["0.7:1", "0.2:2", "0.5:0", "0.25:1"]
    assert ask(forms, 2).get_json()["outputs"] == [{"name": "y", "datatype": "BYTES", "shape": [2, 2], "data": texts}]
    assert ask(forms, 1000).get_json()["outputs"][0]["shape"] == [2, 3]
    tensor = {"name": "x", "shape": [2, 3], "datatype": "FP32"}
    wanted = {"name": "y", "parameters": {"classification": {"int64_param": 2}}}
    raw = np.array(SCORES, "<f4").tobytes()
    asked = {"model_name": "one", "inputs": [tensor], "outputs": [wanted], "raw_input_contents": [raw]}
    answer = forms.grpc("ModelInfer", asked)
    assert (answer.outputs[0].datatype, list(answer.outputs[0].shape)) == ("BYTES", [2, 2])
    assert answer.raw_output_contents[0] == b"".join(len(text).to_bytes(4, "little") + text.encode() for text in texts)
    wanted["parameters"] = {"classification": {"int64_param": -1}}
    assert forms.grpc.fails("ModelInfer", asked) == ("INVALID_ARGUMENT", ask(forms, -1).get_json()["error"])


def test_no_classes_are_the_output_itself(forms: Forms) -> None:
    assert ask(forms, 0).get_json()["outputs"] == ask(forms, None).get_json()["outputs"]
    assert ask(forms, 0).get_json()["outputs"][0]["datatype"] == "FP32"


@each("count", [-1, "2", True, 1.5, [1]])
def test_a_number_of_classes_that_is_none(forms: Forms, count: Any) -> None:
    answer = ask(forms, count)
    assert answer.status_code == 400
    assert answer.get_json()["error"].startswith(
        "output y: classification: expected a number of classes, 0 for none; got "
    )


def test_an_output_without_classes(forms: Forms) -> None:
    answer = ask(forms, 1, "s")
    assert answer.status_code == 400
    assert "output s: classification: expected an output of numbers of shape" in answer.get_json()["error"]


def classes(array: Array, count: int, labels: tuple[str, ...] | None = None, **more: Any) -> Any:
    options = ModelOptions(labels=labels, **more)
    return classified(TensorResponse(ONE, {"y": array}), {"y": count}, options, Share()).outputs["y"].tolist()


def test_the_texts_of_classes_are_held_before_they_are_made() -> None:
    """The request holds the measured size of the texts of each output, in addition to the memory it has."""
    scores = np.zeros((100, 1000), np.float32)
    budget, options = MemoryBudget(200 << 20), ModelOptions(labels=("a label of a class",) * 1000)
    with budget.share() as share:
        share.hold(1 << 20)
        response = TensorResponse(ONE, {"y": scores, "z": scores})
        tracemalloc.start()
        encode_response(classified(response, {"y": 1000, "z": 1000}, options, share), InferRequest({}))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < share.most - (1 << 20) < 2 * most
    with MemoryBudget(1 << 20).share() as share, pytest.raises(TooLarge, match="output y: classification: it takes"):
        classified(response, {"y": 1000}, options, share)


def test_logits_become_scores() -> None:
    assert classes(np.log(np.array([1, 3], np.float32)), 2, activation="softmax") == [b"0.75:1", b"0.25:0"]


def test_labels_are_those_of_an_output_with_as_many_classes() -> None:
    scores = np.array([1, 3, 2], np.int32)
    assert classes(scores, 2, ("a", "b:ü", "c")) == ["3:1:b:ü".encode(), b"2:2:c"]
    assert classes(scores, 1, ("a", "b")) == [b"3:1"]


def test_scores_have_the_digits_of_every_response_and_nan_comes_last() -> None:
    assert classes(np.array([[np.nan, np.inf, 0.1]], np.float32), 3) == [[b"Infinity:1", b"0.1:2", b"NaN:0"]]
    assert classes(np.array([0.1, 0.5], np.float16), 1) == [b"0.5:1"]
    assert classes(np.array([[[[0.1]], [[0.5]]]], np.float16), 1) == [[b"0.5:1"]], "with further dimensions of 1"
    assert classes(np.zeros((0, 3), np.float32), 1) == []


@pytest.mark.parametrize("shape", [(), (1, 2, 3), (2, 0)])
def test_shapes_that_hold_no_classes(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadRequest, match="output y: classification"):
        classes(np.zeros(shape, np.float32), 1)


def test_the_configuration_is_the_same_in_both_forms(forms: Forms) -> None:
    expected = {
        "name": "kinds",
        "platform": "tensorflow_savedmodel",
        "backend": "tensorflow",
        "max_batch_size": 0,
        "input": [
            {"name": "a", "data_type": "TYPE_STRING", "dims": [-1], "format": "FORMAT_NONE"},
            {"name": "b", "data_type": "TYPE_FP16", "dims": [], "format": "FORMAT_NONE"},
        ],
        "output": [
            {"name": "c", "data_type": "TYPE_BOOL", "dims": [-1]},
            {"name": "d", "data_type": "TYPE_INT8", "dims": [2]},
        ],
        "parameters": {},
    }
    assert forms.get("/v2/models/kinds/config") == forms.get("/v2/models/kinds/versions/1/config") == (200, expected)
    assert as_json(forms.grpc("ModelConfig", {"name": "kinds"}).config) == expected


def test_statistics_are_the_same_in_both_forms(forms: Forms) -> None:
    status, reply = forms.get("/v2/models/stats")
    assert (status, [entry["name"] for entry in reply["model_stats"]]) == (200, ["kinds", "one"])
    assert as_json(forms.grpc("ModelStatistics")) == reply
    one = {"model_stats": reply["model_stats"][1:]}
    assert forms.get("/v2/models/one/stats") == forms.get("/v2/models/one/versions/1/stats") == (200, one)
    assert as_json(forms.grpc("ModelStatistics", {"name": "one", "version": "1"})) == one


def test_a_model_called_stats_keeps_its_metadata() -> None:
    fake = FakeTransport()
    fake.serve(signature("stats", {"x": ("float32", (None,))}, {"y": ("float32", (None,))}), lambda inputs: {})
    rest = fake_app(fake, {"stats": ModelOptions()}).test_client()
    assert rest.get("/v2/models/stats").get_json()["inputs"][0]["name"] == "x"
    (reply,) = rest.get("/v2/models/stats/stats").get_json()["model_stats"]
    assert reply["name"] == "stats"


@each("what", ["config", "stats"])
@each(("model", "version"), [("none", ""), ("one", "7"), ("one", "x")])
def test_an_unknown_model_or_version(forms: Forms, what: str, model: str, version: str) -> None:
    path = f"/v2/models/{model}" + (f"/versions/{version}" if version else "")
    status, reply = forms.get(f"{path}/{what}")
    as_metadata = forms.get(path)
    assert (status, reply["error"], reply["code"]) == (404, as_metadata[1]["error"], "model_not_found")
    method = {"config": "ModelConfig", "stats": "ModelStatistics"}[what]
    assert forms.grpc.fails(method, {"name": model, "version": version}) == ("NOT_FOUND", reply["error"])


def test_the_server_shows_what_is_there(forms: Forms) -> None:
    reply = json.loads(forms.rest.get("/v2").data)["extensions"]
    assert reply == ["binary_tensor_data", "classification", "model_configuration", "model_repository", "statistics"]
    assert list(forms.grpc("ServerMetadata").extensions) == reply
