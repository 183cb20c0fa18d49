"""Each kind of model gives the same results at each entrance, with each engine that reads it; other entrances refuse it
with one sentence. docs/content-types.md has the table."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
import tritonclient.grpc as triton
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

import lightbox
from lightbox.base.errors import LightboxError
from lightbox.cli import main
from support.fakes import png
from support.onnx_models import write
from support.patience import PATIENCE
from support.stack import Stack, free_port, running
from support.streams import opened, received

pytestmark = pytest.mark.extended

Arrays = dict[str, Any]
PIXELS = np.random.default_rng(20180113).integers(0, 256, (8, 8, 3)).astype(np.uint8)
PICTURE = png(PIXELS)
LABELS = ["red", "green", "blue"]
_BOXES = np.array([[4, 4, 4, 2], [2, 2, 2, 2], [6, 6, 2, 2]], np.float32)
_SCORES = np.array([[0.1, 0.9], [0.6, 0.2], [0.1, 0.1]], np.float32)
_NOTHING = np.zeros((9, 6), np.float32)
_CORNERS = np.concatenate([_BOXES[:, :2] - _BOXES[:, 2:] / 2, _BOXES[:, :2] + _BOXES[:, 2:] / 2], 1)
_LOGITS = np.log(np.concatenate([_SCORES, 1.0001 - _SCORES.sum(1, keepdims=True)], 1))
DETECTORS: Mapping[str, Arrays] = {
    "ultralytics": {"y": np.concatenate([np.concatenate([_BOXES, _SCORES], 1), _NOTHING]).T[None]},
    "end_to_end": {"y": np.concatenate([_CORNERS, _SCORES.max(1, keepdims=True), [[1], [0], [0]]], 1)[None]},
    "detr": {"logits": _LOGITS[None], "pred_boxes": _BOXES[None] / 8},
    "tf": {
        "detection_boxes": _CORNERS[None][..., [1, 0, 3, 2]] / 8,
        "detection_classes": np.array([[1, 0, 0]]),
        "detection_scores": _SCORES.max(1)[None],
    },
}
"""Outputs of detectors that always find the same: a green box, a red one, and one below the threshold."""
FOUND = [("green", 0.9, [2, 3, 6, 5]), ("red", 0.6, [1, 1, 3, 3])]
OF_IMAGES = ("classifier", "several", *DETECTORS)
GIVEN: Mapping[str, Arrays] = {
    "two_inputs": {"a": np.array([[1, 2, 3]], np.float32), "b": np.array([[4, 5]], np.float32)},
    "integers": {"ids": np.array([[3, 4]], np.int32)},
    "strings": {"text": np.array([b"a word"], object)},
}
KINDS = (*OF_IMAGES, *GIVEN)
ENGINES = ("onnxruntime", "openvino", "tensorflow")


def expected(kind: str) -> Arrays:
    mean = PIXELS.mean((0, 1), dtype=np.float64)[None] / 255
    if kind == "classifier":
        return {"scores": np.exp(mean) / np.exp(mean).sum()}
    if kind == "several":
        return {"mean": mean, "sum": mean.sum(1)}
    if kind in DETECTORS:
        return dict(DETECTORS[kind])
    given = GIVEN[kind]
    if kind == "two_inputs":
        return {"y": np.concatenate([given["a"], given["b"]], 1)}
    return {"y": given["ids"].sum(1).astype(np.float32)} if kind == "integers" else {"y": given["text"]}


def options(kind: str, engine: str) -> dict[str, Any]:
    found: dict[str, Any] = {"engine": engine}
    if kind == "classifier":
        return found | {"labels": LABELS}
    form = {"end_to_end": "ultralytics"}.get(kind, kind)
    return found | {"detections": form, "labels": LABELS[:2]} if kind in DETECTORS else found


def write_onnx(file: Path, kind: str) -> None:
    node, nodes = helper.make_node, []
    inputs: dict[str, tuple[str, list[int | str]]] = {}
    outputs: dict[str, tuple[str, list[int | str]]] = {}
    constants: Arrays = {}
    if kind in OF_IMAGES:
        rows: int | str = 1 if kind in DETECTORS else "n"
        inputs = {"x": ("FLOAT", [rows, 3, 8, 8])}
        constants["most"] = np.array(255, np.float32)
        nodes = [node("ReduceMean", ["x"], ["m"], axes=[2, 3], keepdims=0), node("Div", ["m", "most"], ["mean"])]
    if kind == "classifier":
        nodes.append(node("Softmax", ["mean"], ["scores"], axis=1))
        outputs = {"scores": ("FLOAT", ["n", 3])}
    elif kind == "several":
        constants["one"] = np.array([1])
        nodes.append(node("ReduceSum", ["mean", "one"], ["sum"], keepdims=0))
        outputs = {"mean": ("FLOAT", ["n", 3]), "sum": ("FLOAT", ["n"])}
    elif kind in DETECTORS:
        constants["zero"] = np.array(0, np.float32)
        nodes += [
            node("ReduceMean", ["mean"], ["one_number"], keepdims=0),
            node("Mul", ["one_number", "zero"], ["nothing"]),
        ]
        for name, array in DETECTORS[kind].items():
            constants[f"{name}_values"] = array.astype(np.float32)
            nodes.append(node("Add", [f"{name}_values", "nothing"], [name]))
            outputs[name] = ("FLOAT", [*array.shape])
    elif kind == "two_inputs":
        inputs, outputs = {"a": ("FLOAT", ["n", 3]), "b": ("FLOAT", ["n", 2])}, {"y": ("FLOAT", ["n", 5])}
        nodes = [node("Concat", ["a", "b"], ["y"], axis=1)]
    elif kind == "integers":
        inputs, outputs, constants = {"ids": ("INT32", ["n", 2])}, {"y": ("FLOAT", ["n"])}, {"one": np.array([1])}
        nodes = [node("Cast", ["ids"], ["f"], to=TensorProto.FLOAT), node("ReduceSum", ["f", "one"], ["y"], keepdims=0)]
    else:
        inputs, outputs = {"text": ("STRING", ["n"])}, {"y": ("STRING", ["n"])}
        nodes = [node("Identity", ["text"], ["y"])]
    write(file, nodes, inputs, outputs, constants)


def write_saved_model(folder: Path, kind: str) -> None:
    import tensorflow as tf

    def of_image(x: Any) -> Any:
        mean = tf.reduce_mean(x, [1, 2]) / 255
        if kind == "classifier":
            return {"scores": tf.nn.softmax(mean)}
        if kind == "several":
            return {"mean": mean, "sum": tf.reduce_sum(mean, 1)}
        nothing = tf.reduce_mean(mean) * 0
        return {name: tf.constant(array.astype(np.float32)) + nothing for name, array in DETECTORS[kind].items()}

    rows = 1 if kind in DETECTORS else None
    specs = {"x": tf.TensorSpec([rows, 8, 8, 3], tf.float32, "x")}
    function: Any = of_image
    if kind == "two_inputs":
        specs = {name: tf.TensorSpec([None, size], tf.float32, name) for name, size in (("a", 3), ("b", 2))}
        function = lambda a, b: {"y": tf.concat([a, b], 1)}  # noqa: E731
    elif kind == "integers":
        specs = {"ids": tf.TensorSpec([None, 2], tf.int32, "ids")}
        function = lambda ids: {"y": tf.reduce_sum(tf.cast(ids, tf.float32), 1)}  # noqa: E731
    elif kind == "strings":
        specs = {"text": tf.TensorSpec([None], tf.string, "text")}
        function = lambda text: {"y": tf.identity(text)}  # noqa: E731
    traced = tf.function(function).get_concrete_function(**specs)
    module = tf.Module()
    module.traced = traced
    tf.saved_model.save(module, str(folder), signatures=traced)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def model_name(kind: str, engine: str) -> str:
    return f"{kind}_{engine}"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for kind, engine in product(KINDS, ENGINES):
        model = folder / model_name(kind, engine)
        if kind == "strings" and engine == "openvino":
            continue
        if engine == "tensorflow":
            write_saved_model(model / "1", kind)
        else:
            write_onnx(model / "1" / "model.onnx", kind)
        (model / "code").mkdir()
        (model / "code" / "lightbox.json").write_text(json.dumps(options(kind, engine)))
    return folder


@pytest.fixture(scope="module")
def stack(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    environ = {"LIGHTBOX_STREAMS": "true", "LIGHTBOX_TFS_API": "true", "LIGHTBOX_KSERVE_GRPC_PORT": str(free_port())}
    with running(models, tmp_path_factory.mktemp("run"), **environ) as found:
        yield found


class Refused(Exception):
    """An entrance refuses: the status, as of HTTP, and the sentence."""


class Entrances:
    """Sends the input of a kind in each way, and returns the outputs by name."""

    def __init__(self, stack: Stack, kind: str, engine: str) -> None:
        self._stack, self._kind, self._model = stack, kind, model_name(kind, engine)
        tensor = PIXELS[None].astype(np.float32)
        pixels = {"x": tensor if engine == "tensorflow" else tensor.transpose(0, 3, 1, 2)}
        self._given: Arrays = pixels if kind in OF_IMAGES else GIVEN[kind]

    def image(self) -> Arrays:
        return self._arrays(PICTURE, "application/x-image")

    def multipart(self) -> Arrays:
        return self._arrays(form(PICTURE), "multipart/form-data; boundary=b")

    def picture_in_json(self) -> Arrays:
        return self._arrays(json.dumps({"instances": [_in_base64(PICTURE)]}).encode(), "application/json")

    def json(self) -> Arrays:
        return self._arrays(json.dumps({"inputs": self._lists()}).encode(), "application/json")

    def npz(self) -> Arrays:
        file = io.BytesIO()
        np.savez(
            file, **{name: array.astype("S") if array.dtype.hasobject else array for name, array in self._given.items()}
        )
        return self._arrays(file.getvalue(), "application/x-npz")

    def v1(self) -> Arrays:
        answer = requests.post(
            f"{self._stack.url}/v1/models/{self._model}:predict", json={"inputs": self._lists()}, timeout=PATIENCE
        )
        outputs = _checked(answer)["outputs"]
        found = outputs if isinstance(outputs, dict) else dict.fromkeys(expected(self._kind), outputs)
        return {name: np.array(values) for name, values in found.items()}

    def v2(self) -> Arrays:
        given = [
            {
                "name": name,
                "shape": array.shape,
                "datatype": _datatype(array),
                "data": [item.decode() if isinstance(item, bytes) else item for item in array.ravel().tolist()],
            }
            for name, array in self._given.items()
        ]
        answer = requests.post(
            f"{self._stack.url}/v2/models/{self._model}/infer", json={"inputs": given}, timeout=PATIENCE
        )
        outputs = _checked(answer)["outputs"]
        return {output["name"]: np.array(output["data"]).reshape(output["shape"]) for output in outputs}

    def grpc(self) -> Arrays:
        return self._by_grpc(self._given)

    def picture_by_grpc(self) -> Arrays:
        return self._by_grpc({next(iter(self._given)): np.array([PICTURE], object)})

    def _by_grpc(self, given: Arrays) -> Arrays:
        tensors = []
        for name, array in given.items():
            tensors.append(triton.InferInput(name, list(array.shape), _datatype(array)))
            tensors[-1].set_data_from_numpy(array)
        with triton.InferenceServerClient(f"127.0.0.1:{self._stack.environ['LIGHTBOX_KSERVE_GRPC_PORT']}") as client:
            try:
                answer = client.infer(self._model, tensors)
            except InferenceServerException as error:
                raise Refused(error.status(), error.message()) from None
        return {output.name: answer.as_numpy(output.name) for output in answer.get_response().outputs}

    def _lists(self) -> dict[str, Any]:
        return {name: _listed(array) for name, array in self._given.items()}

    def _arrays(self, body: bytes, kind: str) -> Arrays:
        """Return what /invocations answers as arrays, without names and boxes; texts as JSON."""
        accept = "application/json" if self._kind == "strings" else "application/x-npz"
        answer = self._stack.invoke(
            body,
            Content_Type=kind,
            Accept=accept,
            X_Amzn_SageMaker_Custom_Attributes=f"tfs-model-name={self._model}",
        )
        if accept == "application/json" or answer.status_code != 200:
            document = _checked(answer)
            return {"y": np.array(document.get("predictions", document.get("outputs")))}
        return dict(np.load(io.BytesIO(answer.content)))


def _in_base64(content: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(content).decode()}


def _listed(array: Any) -> Any:
    return [_in_base64(item) for item in array] if array.dtype.hasobject else array.tolist()


def _datatype(array: Any) -> str:
    return {"f": "FP32", "i": "INT32", "O": "BYTES"}[array.dtype.kind]


def _checked(answer: requests.Response) -> Any:
    if answer.status_code != 200:
        raise Refused(answer.status_code, answer.json()["error"])
    return answer.json()


NUMBERS: tuple[Callable[[Entrances], Arrays], ...] = (
    *(Entrances.json, Entrances.npz, Entrances.v1, Entrances.v2, Entrances.grpc),
)
PICTURES: tuple[Callable[[Entrances], Arrays], ...] = (
    *(Entrances.image, Entrances.multipart, Entrances.picture_in_json, Entrances.picture_by_grpc),
)


def compare(found: Arrays, kind: str) -> None:
    wanted = expected(kind)
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        if array.dtype.hasobject:
            assert [item.encode() if isinstance(item, str) else item for item in found[name].tolist()] == array.tolist()
        else:
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_entrances_give_the_same_tensors(stack: Stack, models: Path, engine: str, kind: str) -> None:
    if not (models / model_name(kind, engine)).exists():
        return
    entrances = Entrances(stack, kind, engine)
    for entrance in (*NUMBERS, *PICTURES) if kind in OF_IMAGES else NUMBERS:
        compare(entrance(entrances), kind)
    if kind in OF_IMAGES:
        compare(dict(lightbox.load(models / model_name(kind, engine)).predict_arrays(PICTURE)), kind)


REFUSALS: Mapping[Callable[[Entrances], Arrays], tuple[Any, str]] = {
    Entrances.image: (415, "takes {takes}: none of these accepts an image; "),
    Entrances.multipart: (415, "takes {takes}: none of these accepts an image; "),
    Entrances.picture_in_json: (400, ": expected "),
    Entrances.picture_by_grpc: ("StatusCode.INVALID_ARGUMENT", "input"),
}


@pytest.mark.parametrize(
    ("kind", "takes"),
    [("two_inputs", "a (float32 [-1,3]), b (float32 [-1,2])"), ("integers", "ids (int32 [-1,2])")],
)
def test_an_entrance_that_cannot_carry_an_input_refuses_with_a_sentence(
    stack: Stack, models: Path, engine: str, kind: str, takes: str
) -> None:
    for entrance, (status, words) in REFUSALS.items():
        with pytest.raises(Refused) as caught:
            entrance(Entrances(stack, kind, engine))
        assert caught.value.args[0] == status
        assert words.format(takes=takes) in caught.value.args[1]
    with pytest.raises(LightboxError, match="none of these accepts an image"):
        lightbox.load(models / model_name(kind, engine)).predict(PICTURE)


@pytest.mark.parametrize("kind", OF_IMAGES)
def test_names_scores_and_boxes_are_the_same(
    stack: Stack, models: Path, tmp_path: Path, engine: str, kind: str
) -> None:
    model = models / model_name(kind, engine)
    attributes = f"tfs-model-name={model.name}"
    answers = [
        stack.invoke(body, Content_Type=of, X_Amzn_SageMaker_Custom_Attributes=attributes).json()["predictions"][0]
        for body, of in (
            (PICTURE, "application/x-image"),
            (form(PICTURE), "multipart/form-data; boundary=b"),
            (json.dumps({"instances": [_in_base64(PICTURE)]}).encode(), "application/json"),
        )
    ]
    with opened(stack, attributes) as stream:
        stream.send(PICTURE)
        answers.append(received(stream)["answer"]["predictions"][0])
    answers.append(lightbox.load(model).predict(PICTURE))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_bytes(PICTURE)
    code = main(["predict", f"{tmp_path}/in", "--model", str(model), "--to", f"{tmp_path}/out.jsonl"])
    assert code == 0
    answers.append(json.loads((tmp_path / "out.jsonl").read_text())["response"])
    assert all(answer == answers[0] for answer in answers)
    if kind == "classifier":
        scores = expected(kind)["scores"][0]
        order = np.argsort(-scores).tolist()
        assert [item["label"] for item in answers[0]] == [LABELS[number] for number in order]
        assert [item["score"] for item in answers[0]] == pytest.approx(scores[order], rel=1e-5)
    elif kind in DETECTORS:
        assert [item["label"] for item in answers[0]] == [label for label, *_ in FOUND]
        for item, (_, score, box) in zip(answers[0], FOUND, strict=True):
            assert item["score"] == pytest.approx(score, abs=1e-3)
            assert item["box"] == pytest.approx(box, abs=1e-4)
    else:
        assert answers[0].keys() == expected(kind).keys()


def form(picture: bytes) -> bytes:
    head = b'--b\r\nContent-Disposition: form-data; name="a"; filename="a.png"\r\n\r\n'
    return head + picture + b"\r\n--b--\r\n"
