"""The models that the page's tests serve: classes with and without names, versions, boxes, and plain numbers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from support.finders import LABELS, write_finder
from support.model_files import write_means
from support.models import copy_golden, export
from support.stack import REPOSITORY

NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
OWN = "tests/support/page_models.py"
BOXES = [[0.25, 0.125, 0.75, 0.5], [0.5, 0.5, 0.875, 0.9375]]


def page_models(folder: Path, sample_models: Path) -> Path:
    """Make the models in a folder and return it."""
    for name in ("efficientnet_lite0", "mobilenet_v2", "digits"):
        shutil.copytree(sample_models / name, folder / name)
    named = folder / "named_digits"
    shutil.copytree(sample_models / "digits", named)
    shutil.copytree(named / "1", named / "2")
    options = named / "code" / "lightbox.json"
    options.write_text(json.dumps(json.loads(options.read_text()) | {"labels": NAMES, "top_k": 3}))
    export_boxes(folder / "boxes" / "1")
    shutil.copytree(folder / "boxes", folder / "named_boxes")
    for name in ("boxes", "named_boxes"):
        (folder / name / "code").mkdir()
    (folder / "boxes" / "code" / "lightbox.json").write_text('{"recipe": "none"}')
    things = {"labels": [f"thing {number}" for number in range(20)]}
    (folder / "named_boxes" / "code" / "lightbox.json").write_text(json.dumps(things))
    copy_golden("image_mean", folder / "image_mean")
    chosen = folder / "multi_signature"
    copy_golden("multi_signature", chosen)
    (chosen / "code").mkdir()
    (chosen / "code" / "lightbox.json").write_text('{"engine": "auto"}')
    write_means(folder / "channels_first" / "1" / "model.xml", 40, 60)
    write_finder(folder / "rectangles" / "1" / "model.xml", "ultralytics", 64, 96)
    (folder / "rectangles" / "code").mkdir()
    found = {"preset": "ultralytics", "detections": "ultralytics", "labels": LABELS}
    (folder / "rectangles" / "code" / "lightbox.json").write_text(json.dumps(found))
    for task in ("segment", "semantic", "depth"):
        shutil.copytree(REPOSITORY / "tests" / "exports" / "recipes" / f"ultralytics_{task}", folder / task / "1")
        (folder / task / "code").mkdir()
        (folder / task / "code" / "lightbox.json").write_text('{"engine": "openvino"}')
    return folder


def export_boxes(folder: Path) -> None:
    """Export a detector of uint8 [N, 8, 8, 3] that finds BOXES in each image; the scores depend on its pixels."""

    def make() -> Any:
        import tensorflow as tf

        @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 3], tf.uint8, name="image")])  # type: ignore[untyped-decorator]
        def serve(image: Any) -> dict[str, Any]:
            rows = tf.shape(image)[0]
            mean = tf.reduce_mean(tf.cast(image, tf.float32), axis=[1, 2, 3]) / 510
            return {
                "detection_boxes": tf.tile(tf.constant([BOXES]), [rows, 1, 1]),
                "detection_classes": tf.tile(tf.constant([[3.0, 17.0]]), [rows, 1]),
                "detection_scores": tf.stack([0.5 + mean, mean], axis=1),
                "num_detections": tf.fill([rows], 2.0),
            }

        return serve

    export("boxes", make, folder, OWN)
