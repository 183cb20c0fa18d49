"""EfficientDet-D1: the detection zoo's interface, and the relations between its outputs, over both wires."""

import io
import shutil
import sys
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from lightbox.model_runtime.engines import disk_cache
from lightbox.model_runtime.engines.setting import IN_MODEL
from lightbox.tools.model_zoo import efficientdet_d1
from lightbox.tools.model_zoo.image_model import ImageModel
from lightbox.tools.model_zoo.input_forms import prepare, serving_function
from support import commands, photos
from support.stack import Stack, running

# Written out, independent of the code: these are the published model's.
PUBLISHED_OUTPUTS = {
    "detection_anchor_indices": (1, 100),
    "detection_boxes": (1, 100, 4),
    "detection_classes": (1, 100),
    "detection_multiclass_scores": (1, 100, 90),
    "detection_scores": (1, 100),
    "num_detections": (1,),
    "raw_detection_boxes": (1, 76725, 4),
    "raw_detection_scores": (1, 76725, 90),
}

Outputs = dict[str, NDArray[np.float32]]


@pytest.fixture
def without_network(monkeypatch: pytest.MonkeyPatch) -> ImageModel:
    """efficientdet_d1 without its network, whose making takes a minute."""
    monkeypatch.setattr(efficientdet_d1, "keras_model", lambda: SimpleNamespace(variables=()))
    return efficientdet_d1.image_model()


@pytest.fixture(scope="module")
def photo() -> bytes:
    """A real JPEG, 640x427."""
    return photos.path_of("images", "china.jpg").read_bytes()


@pytest.fixture(scope="module")
def signature(detector: Path) -> Any:
    import tensorflow as tf

    return tf.saved_model.load(str(detector / "1")).signatures["serving_default"]


@pytest.fixture(scope="module")
def pixels(photo: bytes) -> NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(photo)).resize((640, 640)))[None]


@pytest.fixture(scope="module")
def found(signature: Any, pixels: NDArray[np.uint8]) -> Outputs:
    import tensorflow as tf

    return {name: value.numpy() for name, value in signature(input_tensor=tf.constant(pixels)).items()}


def test_the_signature_is_the_published_one(signature: Any) -> None:
    import tensorflow as tf

    (inputs,) = signature.structured_input_signature[1].values()
    assert (inputs.name, inputs.dtype, inputs.shape) == ("input_tensor", tf.uint8, (1, 640, 640, 3))
    outputs = signature.structured_outputs
    assert {name: tuple(output.shape) for name, output in outputs.items()} == PUBLISHED_OUTPUTS
    assert {output.dtype for output in outputs.values()} == {tf.float32}


def test_the_answer_has_the_published_shapes(found: Outputs) -> None:
    assert {name: value.shape for name, value in found.items()} == PUBLISHED_OUTPUTS
    assert found["raw_detection_scores"].nbytes == 76725 * 90 * 4


def test_detections_are_rows_of_the_raw_predictions(found: Outputs) -> None:
    anchors = found["detection_anchor_indices"][0].astype(int)
    rows = found["raw_detection_scores"][0][anchors]
    np.testing.assert_array_equal(found["detection_multiclass_scores"][0], rows)
    np.testing.assert_array_equal(found["detection_scores"][0], rows.max(axis=1))
    np.testing.assert_array_equal(found["detection_classes"][0], rows.argmax(axis=1) + 1)
    boxes = found["raw_detection_boxes"][0][anchors].clip(0, 1)
    np.testing.assert_array_equal(found["detection_boxes"][0], boxes)


def test_detections_come_best_first_and_no_two_of_a_class_overlap_by_half(found: Outputs) -> None:
    scores, classes, boxes = (found[f"detection_{part}"][0] for part in ("scores", "classes", "boxes"))
    assert found["num_detections"] == 100
    assert (np.diff(scores) <= 0).all()
    assert scores[0] > 0.3
    assert len(set(classes)) > 1
    pairs = [(a, b) for a, b in combinations(range(100), 2) if classes[a] == classes[b]]
    assert max(overlap(boxes[a], boxes[b]) for a, b in pairs) <= 0.5


def overlap(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    common = float(np.prod(sides.clip(0)))
    return common / float(np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2]) - common + 1e-9)


def test_every_form_brings_the_same_pixels_to_the_network(
    without_network: ImageModel, photo: bytes, pixels: NDArray[np.uint8]
) -> None:
    import tensorflow as tf

    model = without_network
    from_pixels = prepare(tf.constant(pixels), model, "uint8").numpy()
    np.testing.assert_array_equal(from_pixels, pixels.astype(np.float32))
    np.testing.assert_array_equal(prepare(tf.constant(from_pixels), model, "float32"), from_pixels)
    assert np.abs(prepare(tf.constant([photo]), model, "bytes").numpy() - from_pixels).max() <= 1
    assert serving_function(model, "bytes").input_signature[0].dtype == tf.string


def test_all_outputs_and_a_chosen_few_come_over_both_wires(detector: Path, photo: bytes, tmp_path: Path) -> None:
    few = ("detection_boxes", "detection_classes", "detection_scores", "num_detections")
    with running(detector.parent, tmp_path) as stack:
        grpc, rest = (detected(stack, photo, wire) for wire in ("grpc", "rest"))
        assert {name: value.shape for name, value in grpc.items()} == PUBLISHED_OUTPUTS
        assert grpc.keys() == rest.keys()
        for name, value in grpc.items():
            np.testing.assert_allclose(value, rest[name], rtol=2e-5, atol=1e-6)
        for wire, every in (("grpc", grpc), ("rest", rest)):
            chosen = detected(stack, photo, f"{wire},tfs-outputs={','.join(few)}")
            assert chosen.keys() == set(few)
            for name, value in chosen.items():
                np.testing.assert_array_equal(value, every[name])


def detected(stack: Stack, photo: bytes, wire: str) -> Outputs:
    answer = stack.invoke(photo, X_Amzn_SageMaker_Custom_Attributes=f"tfs-transport={wire}", Accept="application/x-npz")
    assert answer.status_code == 200, answer.text[:1000]
    with np.load(io.BytesIO(answer.content)) as found:
        return dict(found)


def test_openvino_matches_tensorflow(detector: Path, tmp_path: Path) -> None:
    folder = tmp_path / "efficientdet_d1" / "1"
    shutil.copytree(detector / "1", folder)
    command = [sys.executable, "-m", "lightbox.model_runtime.engines", "--write", str(folder)]
    assert "OpenVINO matches TensorFlow on" in commands.output(command)
    content = disk_cache.read(folder / IN_MODEL)
    assert content is not None
    assert content["signatures"]["serving_default"]["is_equal"]
