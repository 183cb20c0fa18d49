"""Detectors with known boxes: they find the red and the blue rectangle in their input pixels."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import openvino
from openvino import opset13 as op

Form = Literal["ultralytics", "end_to_end", "detr", "tf"]
LABELS = ("red", "blue")
SCORES = (0.9, 0.6)


def write_finder(file: Path, form: Form, height: int = 320, width: int = 320, scale: float = 1) -> None:
    """Write a detector of float32 [1, 3, height, width], pixels 0..``scale`` in the order RGB, as OpenVINO's IR.

    Each rectangle is an object of its color's class with the score in ``SCORES``, or 0 if absent. For the red one
    the form ``ultralytics`` gives a second box, slightly shifted, with a lower score. Of equal detectors the files are
    equal, too: the engines measure one of them.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    openvino.save_model(_finder(form, height, width, scale), file, compress_to_fp16=False)


@cache
def _finder(form: Form, height: int, width: int, scale: float) -> Any:
    pixels = op.parameter([1, 3, height, width], np.float32, name="images")
    red, _, blue = op.split(pixels, op.constant(1), 3).outputs()
    found = [
        _rectangle(_is(red, blue, scale), height, width),
        _rectangle(_is(blue, red, scale), height, width),
    ]
    outputs = _FORMS[form](found, height, width)
    model = openvino.Model(list(outputs.values()), [pixels], "finder")
    model.input(0).set_names({"images"})
    for port, name in zip(model.outputs, outputs, strict=True):
        port.set_names({name})
    return model


def _number(value: Any) -> Any:
    return op.constant(np.array(value, np.float32))


def _is(high: Any, low: Any, scale: float) -> Any:
    """Return 1 where a color is strong and the other weak, [1, 1, height, width], else 0."""
    strong, weak = op.greater(high, _number(0.6 * scale)), op.less(low, _number(0.3 * scale))
    return op.convert(op.logical_and(strong, weak), "f32")


def _rectangle(mask: Any, height: int, width: int) -> tuple[Any, Any]:
    """Return left, top, right and bottom [1, 4] of the ones in a mask, and whether there are any [1, 1]."""
    ends = []
    for axis, size in ((2, width), (3, height)):
        line = op.reshape(op.reduce_max(mask, op.constant([axis])), op.constant([1, size]), False)
        up, down = np.arange(1, size + 1, dtype=np.float32)[None], np.arange(size, 0, -1, dtype=np.float32)[None]
        last, first = (op.reduce_max(op.multiply(line, _number(ramp)), op.constant([1]), True) for ramp in (up, down))
        ends.append((op.subtract(_number([[size]]), first), last))
    (left, right), (top, bottom) = ends
    any_there = op.reshape(op.reduce_max(mask, op.constant([2, 3])), op.constant([1, 1]), False)
    return op.concat([left, top, right, bottom], 1), any_there


def _centered(corners: Any) -> Any:
    """Return center x, center y, width and height [1, 4]."""
    to_center = np.array([[0.5, 0, -1, 0], [0, 0.5, 0, -1], [0.5, 0, 1, 0], [0, 0.5, 0, 1]], np.float32)
    return op.matmul(corners, _number(to_center), False, False)


def _rows(parts: list[Any]) -> Any:
    """Return rows [1, n] as [1, rows, n]."""
    return op.concat([op.unsqueeze(part, op.constant(1)) for part in parts], 1)


def _ultralytics(found: list[tuple[Any, Any]], height: int, width: int) -> dict[str, Any]:
    anchors = []
    for number, (corners, there) in enumerate(found):
        scores = np.zeros((1, 2), np.float32)
        scores[0, number] = SCORES[number]
        anchors.append(op.concat([_centered(corners), op.multiply(there, _number(scores))], 1))
    corners, there = found[0]
    shifted = op.add(_centered(corners), _number([[1, -1, 2, 2]]))
    anchors.append(op.concat([shifted, op.multiply(there, _number([[0.8, 0]]))], 1))
    nothing = op.concat([_centered(corners), op.multiply(there, _number([[0.1, 0.1]]))], 1)
    return {"output0": op.transpose(_rows([*anchors, *(16 * [nothing])]), op.constant([0, 2, 1]))}


def _end_to_end(found: list[tuple[Any, Any]], height: int, width: int) -> dict[str, Any]:
    rows = [
        op.concat([corners, op.multiply(there, _number([[SCORES[number]]])), _number([[number]])], 1)
        for number, (corners, there) in enumerate(found)
    ]
    return {"output0": _rows([*rows, _number([[0, 0, 0, 0, 0, 0]])])}


def _detr(found: list[tuple[Any, Any]], height: int, width: int) -> dict[str, Any]:
    sizes = _number([[width, height, width, height]])
    logits = []
    for number, (_, there) in enumerate(found):
        chances = np.full((1, 3), 1e-6, np.float32)
        chances[0, number], chances[0, 2] = SCORES[number], 1 - SCORES[number]
        seen = op.log(_number(chances / chances.sum()))
        nothing = op.log(_number([[1e-6, 1e-6, 1]]))
        logits.append(op.add(op.multiply(there, seen), op.multiply(op.subtract(_number([[1]]), there), nothing)))
    boxes = [op.divide(_centered(corners), sizes) for corners, _ in found]
    return {"logits": _rows(logits), "pred_boxes": _rows(boxes)}


def _tf(found: list[tuple[Any, Any]], height: int, width: int) -> dict[str, Any]:
    turned = op.constant([1, 0, 3, 2])
    sizes = _number([[height, width, height, width]])
    boxes = [op.divide(op.gather(corners, turned, op.constant(1)), sizes) for corners, _ in found]
    scores = [op.multiply(there, _number([[score]])) for (_, there), score in zip(found, SCORES, strict=True)]
    return {
        "detection_boxes": _rows(boxes),
        "detection_classes": _number([[0, 1]]),
        "detection_scores": op.concat(scores, 1),
        "num_detections": _number([2]),
    }


_FORMS = {"ultralytics": _ultralytics, "end_to_end": _end_to_end, "detr": _detr, "tf": _tf}
