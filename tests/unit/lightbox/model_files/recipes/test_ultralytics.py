"""All that Ultralytics' exporter writes becomes options: in ONNX, beside OpenVINO's IR, and behind a LiteRT file."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightbox.model.options import RecipeError
from lightbox.model_files.checks import notes_beside
from lightbox.model_runtime.formats import ModelFile, as_model_file
from support.model_files import write_dense_as
from support.recipes import of_ultralytics, resolved, write_network

BOXES = {"output0": np.zeros((1, 4 + 2, 84))}


def network(folder: Path, sides: Any = (64, 64), **notes: Any) -> Path:
    return write_network(folder / "yolo.onnx", BOXES, sides, of_ultralytics(**{"task": "detect", **notes}))


def test_a_detector_needs_no_options(tmp_path: Path) -> None:
    options = resolved(network(tmp_path, names=["cat", "dog"]))
    assert (options.detections, options.labels, options.fit) == ("ultralytics", ("cat", "dog"), "letterbox")
    assert (options.scaling, options.pad, options.resize, options.image_size) == ("unit", 114, "opencv_bilinear", None)
    assert options.recipe_source == "the metadata of yolo.onnx (Ultralytics 8.4.190)"


def test_open_sides_get_the_size_that_predict_takes(tmp_path: Path) -> None:
    options = resolved(network(tmp_path, ("height", "width"), names=["cat", "dog"], imgsz=[320, 480]))
    assert (options.image_size, options.stride) == ((640, 640), 32)
    classifier = resolved(network(tmp_path, ("height", "width"), task="classify", names=["a"], imgsz=[320, 480]))
    assert (classifier.image_size, classifier.stride) == ((480, 320), None)


def test_a_classifier_is_cut_out_and_not_letterboxed(tmp_path: Path) -> None:
    metadata = of_ultralytics("classify", ["cat", "dog"])
    options = resolved(write_network(tmp_path / "yolo.onnx", {"output0": np.zeros((1, 2))}, metadata=metadata))
    assert (options.fit, options.crop_pct, options.resize, options.scaling) == ("crop", 1, "bilinear", "unit")
    assert (options.labels, options.activation, options.detections) == (("cat", "dog"), "none", None)


@pytest.mark.parametrize(
    ("task", "kind", "fit", "labels"),
    [("semantic", "classes", "letterbox", ("cat", "dog")), ("depth", "ultralytics-depth", "stretch", None)],
)
def test_maps_get_their_pixels(task: str, kind: str, fit: str, labels: tuple[str, ...] | None, tmp_path: Path) -> None:
    options = resolved(network(tmp_path, task=task, names=["cat", "dog"]))
    assert (options.map, options.fit, options.scaling, options.labels) == (kind, fit, "unit", labels)


def test_boxes_of_rt_detr_stay_tensors(tmp_path: Path) -> None:
    described = resolved(network(tmp_path, names=["cat", "dog"], description="Ultralytics rtdetr-l model"))
    assert (described.fit, described.detections) == ("stretch", None)  # releases without a head in the metadata


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        ({"names": ["a", "b", "c"]}, "task detect: expected a label for each of the 2 classes, its metadata have 3"),
        ({"task": "segment"}, "task segment: expected outputs of .* the model gives output0"),
        ({"task": "obb"}, "task obb: expected a label for each of the 1 classes"),
        ({"task": "pose"}, "kpt_shape: expected"),
        ({"task": "pose", "kpt_shape": [17, 3]}, "task pose: expected one output of"),
        ({"task": "pose", "kpt_shape": [17]}, "kpt_shape: expected keypoints"),
        ({"task": "detect", "kpt_shape": [1, 2]}, "by its metadata it gives poses; set 'ultralytics-pose'"),
    ],
)
def test_metadata_that_contradict_the_outputs_stop_the_start(notes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=words):
        resolved(network(tmp_path, **{"names": ["cat", "dog"], **notes}))
    assert resolved(network(tmp_path, **{"names": ["cat"], **notes}), {"recipe": "none"}).detections is None


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        ({"names": None}, None),  # another exporter's
        ({"task": "sing", "names": ["a"]}, "task: expected detect, segment"),
        ({"names": ["a"], "imgsz": "x", "task": "classify"}, "imgsz: expected"),
        ({"names": ["a"], "stride": "[8, 16]", "imgsz": "x"}, "stride: expected a number"),
        ({"names": ["a", "b"], "stride": "0", "imgsz": "x"}, "stride: expected a value that is greater"),
        ({"names": ["a"], "imgsz": [0, 8], "task": "classify"}, "image_size: expected one side or width x height"),
    ],
)
def test_broken_metadata_is_a_sentence(notes: dict[str, Any], words: str | None, tmp_path: Path) -> None:
    sides = ("height", "width") if "imgsz" in notes else (64, 64)
    if notes["names"] is None:
        metadata = {key: text for key, text in of_ultralytics("detect", []).items() if key != "names"}
        assert resolved(write_network(tmp_path / "yolo.onnx", BOXES, sides, metadata)).recipe_source == ""
        return
    with pytest.raises(RecipeError, match=words):
        resolved(network(tmp_path, sides, **notes))


@pytest.mark.parametrize(
    "names", ["{0: 'a', 2: 'b'}", "{'x': 'a'}", "[]", "__import__('os')", "{0: 'a'", f"[{'1,' * 200_000}]"]
)
def test_names_that_are_no_names_are_a_sentence(names: str, tmp_path: Path) -> None:
    file = write_network(tmp_path / "yolo.onnx", BOXES, metadata=of_ultralytics("detect", ["a"]) | {"names": names})
    with pytest.raises(RecipeError, match="names: expected"):
        resolved(file)
    assert resolved(file, {"recipe": "none"}).recipe_source == ""
    assert resolved(file, {"scaling": "unit"}).recipe_source == ""


def test_the_metadata_beside_other_formats_are_read(tmp_path: Path) -> None:
    (tmp_path / "metadata.yaml").write_text(
        "description: Ultralytics YOLO11n model\nversion: 8.4.190\nstride: 32\ntask: detect\nbatch: 1\nimgsz:\n- 320\n"
        "- 480\nnames:\n  0: person\n  1: 'traffic light'\n  2: it's\nargs:\n  batch: 1\n"
    )
    notes = notes_beside(tmp_path)
    assert notes["names"] == "{'0': 'person', '1': 'traffic light', '2': \"it's\"}"
    assert (notes["imgsz"], notes["task"], notes["version"]) == ("[320, 480]", "detect", "8.4.190")


def test_the_metadata_behind_a_litert_file_are_read(tmp_path: Path) -> None:
    file = tmp_path / "model.tflite"
    write_dense_as(file)
    assert _notes(file) == {}
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata.json", json.dumps({"task": "detect", "names": {"0": "cat"}, "stride": 32}))
    assert _notes(file) == {"task": "detect", "names": "{'0': 'cat'}", "stride": "32"}
    whole = file.read_bytes()
    packed = tmp_path / "packed.tflite"
    write_dense_as(packed)
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_LZMA) as archive:
        archive.writestr("metadata.json", '{"stride": 32}')
    renamed = whole.replace(b"metadata.json", b"metadata.jsoo")
    for broken in (packed.read_bytes(), whole[:-30] + b"x" * 8 + whole[-22:], renamed):
        file.write_bytes(broken)
        assert _notes(file) == {}


def _notes(file: Path) -> dict[str, str]:
    found = as_model_file(file)
    assert isinstance(found, ModelFile)
    return dict(found.signature().notes)


def test_yolov5_writes_no_task(tmp_path: Path) -> None:
    notes = {"stride": "32", "names": "{0: 'cat', 1: 'dog'}"}
    file = write_network(tmp_path / "v5.onnx", {"output0": np.zeros((1, 84, 5 + 2))}, metadata=notes)
    options = resolved(file)
    assert (options.detections, options.labels, options.fit) == ("ultralytics-v5", ("cat", "dog"), "letterbox")
    assert (options.score_threshold, options.iou_threshold, options.top_k) == (0.25, 0.45, 1000)
    assert resolved(file, {"detections": None}).iou_threshold == 0.7
    other = write_network(tmp_path / "other.onnx", {"output0": np.zeros((1, 84, 9))}, metadata=notes)
    assert resolved(other).recipe_source == ""
