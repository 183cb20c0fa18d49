"""The user's code of a vision model: copy this folder to MODEL_DIR/code and change it.

Lightbox decodes the image, calls the model, and calls ``postprocess`` with the outputs: the likeliest classes of a
classifier, or the objects of a detector. ``labels`` and ``top_k`` come from the model's code/lightbox.json.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lightbox import BadRequest, Request

COCO = (Path(__file__).parent / "labels" / "coco.txt").read_text().splitlines()
"""Names by the class numbers of COCO's detectors, 1 to 90; ten of the numbers were never used."""


def postprocess(outputs: dict[str, np.ndarray[Any, Any]], request: Request) -> dict[str, Any]:
    """Turn a model's outputs into ``{"predictions": [...]}``, an element for each image."""
    if "detection_boxes" in outputs:
        return {"predictions": detections(outputs, request)}
    (scores,) = outputs.values()
    return {"predictions": [best_classes(row, request) for row in scores]}


def best_classes(scores: np.ndarray[Any, Any], request: Request) -> list[dict[str, Any]]:
    """Return the ``top_k`` likeliest classes of one image, the likeliest first."""
    best = np.argsort(-scores)[: request.options.top_k or 5]
    return [{"label": request.label(index), "class": index, "score": scores[index]} for index in best]


def detections(outputs: dict[str, np.ndarray[Any, Any]], request: Request) -> list[list[dict[str, Any]]]:
    """Return the objects of each image; boxes are [left, top, right, bottom] in pixels of the original image."""
    threshold = wanted_threshold(request)
    names = request.labels or COCO
    found = []
    for image, (width, height) in enumerate(request.image_sizes):
        scores = outputs["detection_scores"][image]
        classes = outputs["detection_classes"][image].astype(int)
        boxes = np.clip(outputs["detection_boxes"][image], 0, 1) * (height, width, height, width)
        found.append(
            [
                {
                    "label": names[classes[at]] if classes[at] < len(names) else str(classes[at]),
                    "score": scores[at],
                    "box": boxes[at][[1, 0, 3, 2]].round(1),
                }
                for at in np.flatnonzero(scores >= threshold)
            ]
        )
    return found


def wanted_threshold(request: Request) -> float:
    """Return the minimum score, from the caller's custom attribute ``threshold=0.3``, by default 0.5."""
    text = request.custom_attributes.get("threshold", "0.5")
    try:
        return float(text)
    except ValueError:
        raise BadRequest(f"threshold: expected a number from 0 to 1, got {text!r}") from None
