"""Write files with the metadata of OpenVINO's ModelAPI and of MediaPipe into recipes/.

    PYTHONPATH=tests python tests/exports/make_recipes_of_runtimes.py

It runs after make_recipes.py, in the same environment. Weights are drawn from a seed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import keras
import numpy as np
import openvino
import tensorflow
from openvino import opset13

from pixels.pictures import SIZES, picture

HERE = Path(__file__).parent / "recipes"
SEED = 20261129
LABELS = ["cat", "dog", "big_cow", "other"]


def of_model_api() -> None:
    """Write a classifier as Geti and OTX export it."""
    random, file = np.random.default_rng(SEED), HERE / "openvino_classify" / "model.xml"
    image = opset13.parameter([1, 3, 64, 96], np.float32, name="image")
    image.output(0).set_names({"image"})
    weights = random.normal(0, 0.1, (8, 3, 7, 7)).astype(np.float32)
    seen = opset13.relu(opset13.convolution(image, weights, [4, 4], [3, 3], [3, 3], [1, 1]))
    means = opset13.reduce_mean(seen, np.array([2, 3]))
    logits = opset13.matmul(means, random.normal(0, 1.5, (8, 4)).astype(np.float32), False, False)
    logits.output(0).set_names({"logits"})
    network = openvino.Model([opset13.result(logits)], [image])
    _written(network, file, {"model_type": "Classification", "topk": "4"})


def of_model_api_objects(resize_type: str) -> None:
    """Write a detector as OTX exports it, with a box for each part of the image."""
    random, file = np.random.default_rng(SEED), HERE / f"openvino_{resize_type}" / "model.xml"
    image = opset13.parameter([1, 3, 64, 96], np.float32, name="image")
    image.output(0).set_names({"image"})
    seen = opset13.convolution(
        image, random.normal(0, 0.05, (1, 3, 8, 8)).astype(np.float32), [8, 8], [0, 0], [0, 0], [1, 1]
    )
    scores = opset13.sigmoid(opset13.reshape(seen, np.array([1, 96, 1]), False))
    down, across = np.divmod(np.arange(96), 12)
    centers = np.stack([across, down], axis=1) * 8 + 4 + random.uniform(-3, 3, (96, 2))
    sides = random.uniform(4, 20, (96, 2))
    places = np.concatenate([centers - sides, centers + sides], axis=1).astype(np.float32)
    boxes = opset13.concat([opset13.constant(places[None]), scores], 2)
    boxes.output(0).set_names({"boxes"})
    nothing = opset13.multiply(opset13.squeeze(scores, np.array([2])), np.float32(0))
    labels = opset13.convert(opset13.add(nothing, random.integers(0, 4, (1, 96)).astype(np.float32)), "i64")
    labels.output(0).set_names({"labels"})
    network = openvino.Model([opset13.result(boxes), opset13.result(labels)], [image])
    info = {"model_type": "SSD", "resize_type": resize_type, "pad_value": "114", "confidence_threshold": "0.59"}
    _written(network, file, info)


def _written(network: openvino.Model, file: Path, info: dict[str, str]) -> None:
    """Write a network with what ModelAPI reads."""
    info |= {"labels": " ".join(LABELS), "reverse_input_channels": "False"}
    info |= {"mean_values": "123.675 116.28 103.53", "scale_values": "58.395 57.12 57.375"}
    for key, value in info.items():
        network.set_rt_info(value, ["model_info", key])
    file.parent.mkdir(parents=True, exist_ok=True)
    openvino.save_model(network, file, compress_to_fp16=False)


def of_mediapipe(name: str, is_quantized: bool) -> None:
    """Write a classifier with the metadata of MediaPipe's writer.

    A quantized one takes and gives uint8, and has its normalization in the graph.
    """
    *folders, module = ["mediapipe", "tasks", "cc", "metadata", "python", "_pywrap_metadata_version"]
    for depth in range(3, len(folders) + 1):  # the wheel has no such module
        sys.modules[".".join(folders[:depth])] = ModuleType(folders[depth - 1])
    least = ModuleType(module)
    vars(least)["GetMinimumMetadataParserVersion"] = lambda _: "1.0.0"
    vars(sys.modules[".".join(folders)])[module] = least
    from mediapipe.tasks.python.metadata.metadata_writers import image_classifier, metadata_writer

    keras.utils.set_random_seed(SEED)
    x = image = keras.Input((32, 48, 3), batch_size=1, name="image")
    x = keras.layers.Rescaling(1 / 127.5, -1)(x) if is_quantized else x
    for channels in (4, 8):
        x = keras.layers.Conv2D(channels, 3, strides=2, padding="same", activation="relu")(x)
    last = keras.initializers.RandomNormal(stddev=1.0)
    x = keras.layers.GlobalAveragePooling2D()(x)
    network = keras.Model(image, keras.layers.Dense(4, "softmax", name="scores", kernel_initializer=last)(x))
    lite = tensorflow.lite
    converter = lite.TFLiteConverter.from_keras_model(network)
    if is_quantized:
        converter.optimizations = [lite.Optimize.DEFAULT]
        resized = [np.asarray(picture(one).resize((48, 32)), np.float32)[None] for one in SIZES]
        converter.representative_dataset = lambda: ([one] for one in resized)
        converter.target_spec.supported_ops = [lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tensorflow.uint8
    labels = metadata_writer.Labels().add(LABELS)
    numbers = ([0.0], [1.0]) if is_quantized else ([127.5], [127.5])
    written, _ = image_classifier.MetadataWriter.create(bytearray(converter.convert()), *numbers, labels).populate()
    file = HERE / name / "model.tflite"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(written)


if __name__ == "__main__":
    of_model_api()
    for folder in ("litert_mediapipe", "litert_quantized"):
        of_mediapipe(folder, is_quantized=folder == "litert_quantized")
    for resize_type in ("fit_to_window", "fit_to_window_letterbox"):
        of_model_api_objects(resize_type)
