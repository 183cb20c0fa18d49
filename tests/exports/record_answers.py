"""Write what libraries answer for the files of recipes/ and seven photos of tests/pixels: answers.json.xz, maps.npz.

    PYTHONPATH=tests python tests/exports/record_answers.py [NAME ...]

It runs after make_recipes*.py, in the same environment. Ultralytics opens the photos' files; the others ignore EXIF, or
take pixels, and get those of the upright photo in 8 bits. Where a library has no predict for ONNX, ONNX Runtime runs
the network between the library's own steps before it and after it.
"""

from __future__ import annotations

import json
import lzma
import os
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import libreyolo
import mediapipe
import numpy as np
import onnxruntime
import openvino
import timm
import torch
import torchvision
import transformers
import ultralytics
from libreyolo.backends.onnx import OnnxBackend
from mediapipe.tasks.python import BaseOptions, vision
from model_api.adapters import OpenvinoAdapter, create_core
from model_api.models import Model
from timm.data import create_transform, resolve_data_config
from torchvision.transforms._presets import SemanticSegmentation

from pixels.pictures import PHOTOS, photo, sampled, upright

HERE = Path(__file__).parent / "recipes"
LIBRARIES = (keras, libreyolo, mediapipe, onnxruntime, openvino, timm, torch, torchvision, transformers, ultralytics)
Ask = Callable[[Path, Any], Any]
"""Answers a photo, given by its file and its upright pixels."""


def of_ultralytics(file: Path) -> Ask:
    """Return Ultralytics' ``predict``; OpenVINO computes in float32, also on processors that have bfloat16."""
    compile_model = openvino.Core.compile_model

    def precise(*given: Any, config: Any = None, **named: Any) -> Any:
        return compile_model(*given, config={**(config or {}), "INFERENCE_PRECISION_HINT": "f32"}, **named)

    openvino.Core.compile_model = precise
    kind = ultralytics.RTDETR if "rtdetr" in file.parts[-2] else ultralytics.YOLO
    asked = kind(str(file.parent if file.suffix == ".xml" else file))
    many = 2 if file.parts[-2] == "ultralytics_nms" else 1  # its batch
    return lambda path, _: of_result(asked.predict([path] * many, verbose=False, retina_masks=True)[0])


def of_result(result: Any) -> Any:
    """Return the classes, the objects or the map of Ultralytics."""
    for shown in (result.semantic_mask, result.depth):
        if shown is not None:
            return np.asarray(getattr(shown, "data", shown)).squeeze()
    if result.probs is not None:
        return [[int(one), float(score)] for one, score in zip(result.probs.top5, result.probs.top5conf, strict=True)]
    boxes = result.boxes if result.obb is None else result.obb
    more: list[dict[str, Any]] = [{} for _ in boxes.cls]
    for number, parts in enumerate(more):
        if result.keypoints is not None:
            parts["keypoints"] = result.keypoints.data[number].tolist()
        if result.obb is not None:
            parts["corners"] = result.obb.xyxyxyxy[number].tolist()
        if result.masks is not None:
            parts["counts"] = counts_of(result.masks.data[number].numpy())
    return objects(boxes.cls, boxes.conf, boxes.xyxy, result.orig_shape[::-1], more)


def objects(classes: Any, scores: Any, boxes: Any, size: Any, more: Any = ()) -> list[Any]:
    """Return rows of a class, a score, a box, and what else there is.

    Boxes are cut to the photo, as Lightbox does: transformers leaves them, Ultralytics returns some of the padding.
    """
    kept = np.asarray(boxes).reshape(-1, 4).clip(0, np.tile(size, 2))
    rows = zip(classes.tolist(), scores.tolist(), kept.tolist(), more or [{} for _ in kept], strict=True)
    return [
        [int(number), score, box, *([parts] if parts else [])]
        for number, score, box, parts in rows
        if box[0] < box[2] and box[1] < box[3]
    ]


def counts_of(mask: Any) -> list[int]:
    """Return COCO's run lengths of a mask."""
    pixels = mask.T.ravel().astype(bool)
    ends = np.flatnonzero(np.diff(pixels, prepend=False))
    return [int(length) for length in np.diff(ends, prepend=0, append=len(pixels))]


def of_libreyolo(file: Path) -> Ask:
    """Return what libreyolo does with its exports."""
    asked = OnnxBackend(str(file), device="cpu")

    def ask(_: Path, image: Any) -> Any:
        boxes = asked(image).boxes
        return objects(boxes.cls, boxes.conf, boxes.xyxy, image.size)

    return ask


def of_openvino(file: Path) -> Ask:
    """Return ModelAPI's wrapper, which takes pixels."""
    adapter = OpenvinoAdapter(create_core(), str(file), plugin_config={"INFERENCE_PRECISION_HINT": "f32"})
    if "anomaly" in str(file) or "anomalib" in str(file):
        said = {"scale_values": [255]} if "anomalib" in str(file) else {}
        wrapper = Model.create_model(adapter, "AnomalyDetection", said)
        return lambda _, image: of_anomaly(wrapper(np.asarray(image)))
    wrapper = Model.create_model(adapter)

    def ask(_: Path, image: Any) -> Any:
        found = wrapper(np.asarray(image))
        if hasattr(found, "top_labels"):
            return [[int(one.id), float(one.confidence)] for one in found.top_labels]
        if hasattr(found, "resultImage"):
            return found.resultImage.astype(np.uint8)
        return objects(found.labels, found.scores, found.bboxes, image.size)

    return ask


def of_anomaly(found: Any) -> dict[str, Any]:
    """Return the score of an anomaly, the decision, and the part."""
    score = 1 - found.pred_score if found.pred_label == "Good" else found.pred_score
    return {"mask": found.pred_mask, "score": np.array([score, found.pred_label in ("True", "Broken")])}


def of_litert(file: Path) -> Ask:
    """Return MediaPipe's task."""
    options = vision.ImageClassifierOptions(base_options=BaseOptions(model_asset_path=str(file)), max_results=4)
    asked = vision.ImageClassifier.create_from_options(options)

    def ask(_: Path, image: Any) -> Any:
        pixels = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=np.ascontiguousarray(image))
        return [[kind.index, kind.score] for kind in asked.classify(pixels).classifications[0].categories]

    return ask


def of_keras(file: Path) -> Ask:
    """Return the scores of whole photos, or of those that ``load_img`` has resized."""
    if file.name == "saved_model.pb":
        layer = keras.layers.TFSMLayer(str(file.parent), call_endpoint="serve")
        return lambda _, image: np.asarray(layer(np.asarray(image, np.float32)[None]))[0]
    network = Network(file)

    def ask(_: Path, image: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            shown = Path(folder, "shown.png")
            image.save(shown)
            pixels = keras.utils.load_img(shown, target_size=(32, 48))
        return network(np.asarray(pixels, np.float32)[None])[0][0]

    return ask


def of_timm(file: Path) -> Ask:
    """Return timm's transform and the network."""
    described = json.loads((file.parent / "config.json").read_text())
    transform = create_transform(**resolve_data_config({}, pretrained_cfg=described["pretrained_cfg"]))
    network = Network(file)

    def ask(_: Path, image: Any) -> Any:
        (found,) = network(transform(image)[None].numpy())
        return best(found) if described.get("label_names") else found[0]

    return ask


def of_transformers(file: Path) -> Ask:
    """Return the processor of a folder, the network, and what the processor makes of its answers."""
    place = HERE / "transformers_rf_detr" if file.parts[-2] == "rf_detr" else file.parent
    processor: Any = transformers.AutoImageProcessor.from_pretrained(place)
    network = Network(file)

    def ask(_: Path, image: Any) -> Any:
        given = network(processor(image, return_tensors="np")["pixel_values"])
        size = [image.size[::-1]]
        if len(given) == 2:
            logits, boxes = map(torch.from_numpy, given if place == file.parent else given[::-1])
            raw: Any = SimpleNamespace(logits=logits, pred_boxes=boxes)
            (found,) = processor.post_process_object_detection(raw, 0.5, size)
            return objects(found["labels"], found["scores"], found["boxes"], image.size)
        answer = torch.from_numpy(given[0])
        if "segformer" in str(file):
            (found,) = processor.post_process_semantic_segmentation(SimpleNamespace(logits=answer), size)
            return found.numpy().astype(np.uint8)
        if "dpt" in str(file):
            (found,) = processor.post_process_depth_estimation(SimpleNamespace(predicted_depth=answer), size)
            return found["predicted_depth"].numpy()
        return best(answer) if "id2label" in json.loads((place / "config.json").read_text()) else given[0][0]

    return ask


def of_torchvision(file: Path) -> Ask:
    """Return the network, whose graph has torchvision's own steps; DeepLab gets those of the library."""
    network = Network(file)

    def ask(_: Path, image: Any) -> Any:
        if "deeplab" in str(file):
            given = torch.from_numpy(network(SemanticSegmentation(resize_size=520)(image)[None].numpy())[0])
            whole = torch.nn.functional.interpolate(given, image.size[::-1], mode="bilinear")
            return whole.argmax(1)[0].numpy().astype(np.uint8)
        values = network(torchvision.transforms.functional.to_tensor(image)[None].numpy())
        found = dict(zip(network.names, values, strict=True))
        more: Any = ()
        if "masks" in found:
            more = [{"counts": counts_of(mask[0] > 0.5)} for mask in found["masks"]]
        if "keypoints" in found:
            points = np.concatenate([found["keypoints"][..., :2], found["keypoints_scores"][..., None]], axis=2)
            more = [{"keypoints": one} for one in points.tolist()]
        return objects(found["labels"], found["scores"], found["boxes"], image.size, more)

    return ask


class Network:
    """A network that ONNX Runtime runs."""

    def __init__(self, file: Path) -> None:
        self.session = onnxruntime.InferenceSession(str(file))
        self.names = [one.name for one in self.session.get_outputs()]

    def __call__(self, pixels: Any) -> list[Any]:
        found: list[Any] = self.session.run(None, {self.session.get_inputs()[0].name: pixels})
        return found


def best(logits: Any) -> list[list[float]]:
    """Return the five classes of the highest probability."""
    scores, classes = torch.as_tensor(logits)[0].softmax(0).topk(5)
    return [[int(number), float(score)] for number, score in zip(classes, scores, strict=True)]


ASKED: dict[str, Callable[[Path], Ask]] = {
    **{"ultralytics": of_ultralytics, "libreyolo": of_libreyolo, "openvino": of_openvino, "anomalib": of_openvino},
    **{"litert": of_litert, "keras": of_keras, "timm": of_timm, "torchvision": of_torchvision},
    **{"transformers": of_transformers, "rf": of_transformers},
}
"""How a library is asked, by the first word of a file's folder."""


def main() -> None:
    """Record the answers of the named files, or of all."""
    files = [file for kind in ("onnx", "xml", "tflite", "pb") for file in HERE.glob(f"*/**/*model.{kind}")]
    named = {file.relative_to(HERE).parts[0]: file for file in sorted(files)}
    del named["mlflow_zipmap"]  # a table
    chosen = {name: named[name] for name in sys.argv[1:] or named}
    written = HERE / "answers.json.xz"
    answers: dict[str, Any] = json.loads(lzma.decompress(written.read_bytes()))["answers"] if sys.argv[1:] else {}
    maps = dict(np.load(HERE / "maps.npz")) if sys.argv[1:] else {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, file in chosen.items():
            ask = ASKED[name.partition("_")[0]](file)
            for one in PHOTOS:
                path = Path(folder, "turned.jpg" if one.startswith("turned") else "photo.png")
                path.write_bytes(photo(one))
                try:
                    found = ask(path, upright(one))
                except ValueError:  # YOLOS's processor makes no rows of a panorama
                    found = None
                print(name, one, "refused" if found is None else len(found), flush=True)
                if found is None or isinstance(found, list):
                    answers.setdefault(name, {})[one] = found
                elif isinstance(found, dict):
                    maps |= {f"{name}|{one}|{key}": value for key, value in found.items()}
                else:
                    maps[f"{name}|{one}"] = sampled(found)
    versions = {library.__name__: library.__version__ for library in LIBRARIES}
    pixels = {one: zlib.crc32(upright(one).tobytes()) for one in PHOTOS}
    text = json.dumps({"versions": versions, "pixels": pixels, "answers": answers})
    rounded = json.loads(text, parse_float=lambda number: round(float(number), 4))
    written.write_bytes(lzma.compress(json.dumps(rounded).encode(), preset=9 | lzma.PRESET_EXTREME))
    np.savez_compressed(HERE / "maps.npz", **maps)


if __name__ == "__main__":
    main()
