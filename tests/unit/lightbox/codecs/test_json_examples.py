"""classify and regress: tf.Examples from JSON, results from tensors."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from lightbox.base.errors import BadRequest, InputMismatch, LightboxError, MalformedBody, TooLarge
from lightbox.codecs import Codecs
from lightbox.model.spec import Array, Method, ModelCall
from lightbox.model_runtime.wire.messages import example_pb2
from lightbox.serving.settings_loading import load_settings
from lightbox.serving.worker import codec_options
from support.decoding import decode
from support.fakes import Tensor
from support.parameters import each

WRITERS = Codecs(codec_options(load_settings({}))).writers
INPUT: dict[str, Tensor] = {"inputs": ("string", (None,))}
CLASSES: dict[str, Tensor] = {"classes": ("string", (None, None)), "scores": ("float32", (None, None))}
VALUES: dict[str, Tensor] = {"outputs": ("float32", (None,))}


def classify(body: Any, outputs: dict[str, Tensor] = CLASSES) -> ModelCall:
    text = body if isinstance(body, str) else json.dumps(body)
    return decode(text, "application/json", INPUT, outputs, Method.CLASSIFY)


def regress(body: Any) -> ModelCall:
    return decode(json.dumps(body), "application/json", INPUT, VALUES, Method.REGRESS)


def features(request: ModelCall) -> list[dict[str, list[Any]]]:
    found = []
    for serialized in request.inputs["inputs"].tolist():
        feature = example_pb2.Example.FromString(serialized).features.feature
        found.append({name: list(getattr(value, value.WhichOneof("kind")).value) for name, value in feature.items()})
    return found


def strings(rows: list[list[bytes]]) -> Array:
    array = np.empty((len(rows), len(rows[0])), object)
    array[:] = rows
    return array


@pytest.mark.parametrize(
    "body",
    [
        {"examples": [{"x": 0.5, "n": 2, "tag": "a"}, {"x": [0.5, 1.5], "n": [3], "tag": {"b64": "/w=="}}]},
        [{"x": 0.5, "n": 2, "tag": "a"}, {"x": [0.5, 1.5], "n": [3], "tag": {"b64": "/w=="}}],
        '{"x": 0.5, "n": 2, "tag": "a"} {"x": [0.5, 1.5], "n": 3, "tag": {"b64": "/w=="}}',
    ],
)
def test_examples_become_protos(body: Any) -> None:
    assert features(classify(body)) == [
        {"x": [0.5], "n": [2], "tag": [b"a"]},
        {"x": [0.5, 1.5], "n": [3], "tag": [b"\xff"]},
    ]


def test_the_context_comes_before_every_example_and_may_be_overridden() -> None:
    request = classify({"context": {"n": 7, "x": 1.0}, "examples": [{"x": 2.0}, {}]})
    assert features(request) == [{"n": [7], "x": [2.0]}, {"n": [7], "x": [1.0]}]


def test_only_the_outputs_of_the_method_are_asked_for() -> None:
    more: dict[str, Tensor] = {**CLASSES, "embedding": ("float32", (None, 8))}
    assert classify([{}], more).outputs == ("classes", "scores")
    assert regress([{}]).outputs == ("outputs",)


@each(
    ("body", "error"),
    [
        ({"examples": []}, MalformedBody),
        ({"examples": {"x": 1}}, MalformedBody),
        ({"examples": [1.0]}, MalformedBody),
        ({"examples": [{"x": None}]}, MalformedBody),
        ({"examples": [{"x": [0.5, "a"]}]}, MalformedBody),
        ({"examples": [{"x": {"a": 1}}]}, MalformedBody),
        ({"examples": [{"x": 1 << 63}]}, MalformedBody),
        ({"examples": [{"x": 1e39}]}, InputMismatch),
        ({"context": [1], "examples": [{}]}, MalformedBody),
        ({"context": {"x": -1e39}, "examples": [{}]}, InputMismatch),
        ({"instances": [1]}, BadRequest),
        (5, MalformedBody),
    ],
)
def test_what_makes_no_examples(body: Any, error: type[LightboxError]) -> None:
    with pytest.raises(error) as raised:
        classify(body)
    assert raised.value.status == 400


def test_a_context_may_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lightbox.codecs.json_examples.MAX_BYTES", 10_000)
    with pytest.raises(TooLarge, match="context"):
        classify({"context": {"x": "a" * 1000}, "examples": [{}] * 11})


def test_other_signatures_cannot_classify() -> None:
    with pytest.raises(BadRequest, match="one input and the output classes or scores"):
        classify([{}], VALUES)
    two: dict[str, Tensor] = {"a": ("string", (None,)), "b": ("string", (None,))}
    with pytest.raises(BadRequest, match=r"takes a \(string \[-1\]\), b \(string"):
        decode("[{}]", "application/json", two, CLASSES, Method.CLASSIFY)


def test_the_graph_says_whether_an_input_takes_examples() -> None:
    request = decode("[{}]", "application/json", {"inputs": ("float32", (None, 8))}, VALUES, Method.REGRESS)
    request.signature.check_inputs(request.inputs)
    assert request.inputs["inputs"].tolist() == [b""]


def test_only_json_holds_examples() -> None:
    with pytest.raises(BadRequest, match="tfs-method=classify: expected examples as application/json, got text/csv"):
        decode("1", "text/csv", INPUT, CLASSES, Method.CLASSIFY)


LABELS = strings([[b"cat", b"dog"], [b"dog", b"cat"]])
SCORES = np.array([[0.1, 0.9], [0.75, 0.25]], np.float32)


@pytest.mark.parametrize(
    ("outputs", "results"),
    [
        ({"classes": LABELS, "scores": SCORES}, '[[["cat",0.1],["dog",0.9]],[["dog",0.75],["cat",0.25]]]'),
        ({"scores": SCORES}, '[[["",0.1],["",0.9]],[["",0.75],["",0.25]]]'),
        ({"classes": LABELS}, '[[["cat",0.0],["dog",0.0]],[["dog",0.0],["cat",0.0]]]'),
    ],
)
def test_classes_and_scores_are_answered_in_pairs(outputs: dict[str, Array], results: str) -> None:
    prediction = classify([{}, {}]).predicted(outputs)
    assert WRITERS["application/json"].encode(prediction).body.decode() == f'{{"results":{results}}}'
    assert len(WRITERS["application/jsonlines"].encode(prediction).body.splitlines()) == 2


@each(
    "outputs",
    [
        {"classes": LABELS[0], "scores": SCORES[0]},
        {"classes": LABELS, "scores": SCORES[:, :1]},
        {"classes": LABELS, "scores": SCORES.astype(np.float64)},
        {"classes": SCORES},
        {"scores": SCORES[:1]},
        {"outputs": np.zeros(3, np.float32)},
        {"outputs": np.zeros((2, 2), np.float32)},
        {"outputs": np.zeros(2, np.int32)},
    ],
)
def test_outputs_of_another_shape_are_no_results(outputs: dict[str, Array]) -> None:
    with pytest.raises(BadRequest, match="the model's output"):
        classify([{}, {}]).predicted(outputs)
