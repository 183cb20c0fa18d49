"""How far answers agree: with those of another setting, or with what is true of the pictures.

A record is what the answers for one picture show, by measure: a number from 0 to 1, or the objects that were found.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Record = dict[str, Any]
Floats = npt.NDArray[np.float64]

TOP_1, COSINE, AREAS, OBJECTS = "top-1", "cosine", "mask IoU", "mAP"
SIDES = {"box": OBJECTS, "mask": "mask mAP", "keypoints": "pose mAP"}
"""The measure of each part of an object; mAP is the mean of IoU 0.5 to 0.95."""
_THRESHOLDS = [0.5 + 0.05 * step for step in range(10)]
_RECALLS = np.linspace(0, 1, 101)
_KEYPOINT = 0.1
"""How far a keypoint may be off, as a share of the square root of its box, for a similarity of 0.6."""
_FEATURES = ("embed", "feature", "pool", "hidden", "vector")
_NEAR, _FEW = 1e-2, 10
_BOXES, _SCORES, _CLASSES, _COUNT = "detection_boxes", "detection_scores", "detection_classes", "num_detections"


def compared(expected: Any, got: Any, name: str = "") -> Record:
    """Return the record of two predictions for a picture, in JSON's form; ``name`` is that of the output."""
    if isinstance(expected, dict) and isinstance(got, dict) and {_BOXES, _SCORES} <= expected.keys() & got.keys():
        return compared(_as_objects(expected), _as_objects(got))
    if isinstance(expected, dict) and isinstance(got, dict) and expected.keys() == got.keys():
        return _lowest(compared(expected[key], got[key], key) for key in expected)
    if not isinstance(expected, list) or not isinstance(got, list):
        return {TOP_1: float(expected == got)}
    if all(isinstance(item, dict) for item in (*expected, *got)):
        return _items(expected, got)
    return _numbers(expected, got, name)


def with_class(prediction: Any, number: int, label: str) -> float | None:
    """Return whether the best class of a prediction is the true one, None for a prediction without classes."""
    if isinstance(prediction, dict):
        found = (with_class(value, number, label) for value in prediction.values())
        return next((one for one in found if one is not None), None)
    if not isinstance(prediction, list) or not prediction:
        return None
    if isinstance(prediction[0], dict):
        if "box" in prediction[0]:
            return None
        return float(prediction[0].get("class") == number or prediction[0].get("label", number) == label)
    if not all(isinstance(value, int | float) for value in prediction) or len(prediction) == 1:
        return None
    return float(int(np.argmax(prediction)) == number)


def with_objects(prediction: Any, truth: Sequence[Mapping[str, Any]]) -> Record:
    """Return the record of a prediction beside the true objects of a picture, which have a class and a box."""
    found = _as_objects(prediction) if isinstance(prediction, dict) else prediction
    objects = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    has_labels = all("label" in item for item in objects)
    named = [{**item, "class": item["label"] if has_labels else item["class"]} for item in objects]
    kinds = [{**item, "class": item["label"] if has_labels else item["class"]} for item in truth]
    return _objects(kinds, named)


def summary(records: Iterable[Record]) -> dict[str, float]:
    """Return the agreement by measure, from 0 to 1; NaN for objects where none are expected."""
    kept = list(records)
    names = dict.fromkeys(name for record in kept for name in record)
    result = {}
    for name in names:
        values = [record[name] for record in kept if name in record]
        parts = [value for value in values if isinstance(value, dict)]
        result[name] = _mean_precision(parts) if parts else float(np.mean(values))
    return result


def most_possible(records: Sequence[Record], count: int) -> float:
    """Return the agreement that ``count`` pictures can still reach after these records; 1 if only the whole tells."""
    numbers = {name: sum(1 - record[name] for record in records if name in record) for name in (TOP_1, COSINE, AREAS)}
    return 1 - float(max(numbers.values())) / count


def _items(expected: list[Any], got: list[Any]) -> Record:
    items = [*expected, *got]
    if not items or "box" in items[0]:
        return _objects(expected, got)
    if {"mask", "share"} <= items[0].keys():
        return {AREAS: _areas(*({item["class"]: _mask(item["mask"]) for item in one} for one in (expected, got)))}
    return {TOP_1: float(bool(expected) and bool(got) and expected[0].get("class") == got[0].get("class"))}


def _lowest(records: Iterable[Record]) -> Record:
    result: Record = {}
    for record in records:
        for name, value in record.items():
            is_number = not isinstance(value, dict)
            result[name] = min(value, result.get(name, 1.0)) if is_number else value
    return result


def _numbers(expected: list[Any], got: list[Any], name: str) -> Record:
    try:
        one, other = np.array(expected), np.array(got)
    except ValueError:
        return {TOP_1: float(expected == got)}
    if one.dtype.kind not in "iufb" or other.dtype.kind not in "iufb":
        return {TOP_1: float(expected == got)}
    if one.shape != other.shape:
        return {COSINE: 0.0}
    if one.ndim > 1 and one.dtype.kind in "iub" and other.dtype.kind in "iub":
        kinds = set(np.unique(one).tolist())
        return {AREAS: _areas(*({kind: values == kind for kind in kinds} for values in (one, other)))}
    first, second = one.astype(np.float64).ravel(), other.astype(np.float64).ravel()
    is_of_length_1 = first.size > _FEW and abs(float(np.linalg.norm(first)) - 1) < _NEAR
    is_vector = is_of_length_1 or any(word in name.lower() for word in _FEATURES)
    if one.ndim == 1 and one.size > 1 and (not is_vector or _are_shares(first)):
        return {TOP_1: float(first.argmax() == second.argmax())}
    return {COSINE: _cosine(first, second)}


def _are_shares(values: Floats) -> bool:
    return bool(values.min() >= 0 and abs(values.sum() - 1) < _NEAR)


def _cosine(one: Floats, other: Floats) -> float:
    if not np.isfinite(other).all() or not np.isfinite(one).all():
        return float(np.array_equal(one, other, equal_nan=True))
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return max(0.0, float(one @ other) / lengths) if lengths else float(np.array_equal(one, other))


def _areas(expected: Mapping[Any, npt.NDArray[Any]], got: Mapping[Any, npt.NDArray[Any]]) -> float:
    """Return the mean IoU of the classes that are expected."""
    shares = [_mask_iou(mask, got[kind]) if kind in got else 0.0 for kind, mask in expected.items() if mask.any()]
    return float(np.mean(shares)) if shares else 1.0


def _as_objects(outputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the objects in a detector's outputs."""
    if _BOXES not in outputs or _SCORES not in outputs:
        return []
    count = outputs.get(_COUNT, len(outputs[_SCORES]))
    count = int(count[0] if isinstance(count, list) else count)
    classes = outputs.get(_CLASSES) or [0] * len(outputs[_SCORES])
    rows = zip(classes, outputs[_SCORES], outputs[_BOXES], strict=True)
    return [{"class": int(kind), "score": score, "box": box} for kind, score, box in [*rows][:count]]


def _objects(expected: Sequence[Mapping[str, Any]], got: Sequence[Mapping[str, Any]]) -> Record:
    """Return what was found of the expected objects, by measure: of boxes, and of other parts that all have."""
    items = [*expected, *got]
    parts = ["box", *(part for part in ("mask", "keypoints") if items and all(part in item for item in items))]
    if any(isinstance(item["mask"], list) for item in items if "mask" in parts):
        parts.remove("mask")  # polygons
    ranked = sorted(got, key=lambda item: -float(item.get("score", 0)))
    return {SIDES[part]: _matches(part, expected, ranked) for part in parts}


def _matches(part: str, expected: Sequence[Mapping[str, Any]], ranked: Sequence[Mapping[str, Any]]) -> Record:
    """Return class, score and hits of each object; bit K of the hits is that of the threshold K."""
    alike = np.array([[_likeness(part, one, other) for other in expected] for one in ranked])
    hits = [0] * len(ranked)
    for bit, least in enumerate(_THRESHOLDS):
        free = list(range(len(expected)))
        for at, one in enumerate(ranked):
            able = [to for to in free if expected[to]["class"] == one["class"] and alike[at, to] >= least]
            if able:
                free.remove(max(able, key=lambda to: float(alike[at, to])))
                hits[at] |= 1 << bit
    counts: dict[str, int] = {}
    for item in expected:
        counts[str(item["class"])] = counts.get(str(item["class"]), 0) + 1
    rows = [[str(one["class"]), float(one.get("score", 0)), hit] for one, hit in zip(ranked, hits, strict=True)]
    return {"found": rows, "expected": counts}


def _likeness(part: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    if one["class"] != other["class"]:
        return 0.0
    if part == "box":
        return _box_iou(one["box"], other["box"])
    if part == "mask":
        return _mask_iou(_mask(one["mask"]), _mask(other["mask"]))
    points, others = (np.array(item["keypoints"], np.float64) for item in (one, other))
    if points.shape != others.shape:
        return 0.0
    left, top, right, bottom = other["box"]
    far = ((points[:, :2] - others[:, :2]) ** 2).sum(axis=1)
    return float(np.exp(-far / (2 * max(1e-9, (right - left) * (bottom - top)) * _KEYPOINT**2)).mean())


def _box_iou(one: Sequence[float], other: Sequence[float]) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    both = max(0.0, width) * max(0.0, height)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return both / (sum(areas) - both) if sum(areas) > both else float(list(one) == list(other))


def _mask_iou(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> float:
    if one.shape != other.shape:
        return 0.0
    every = np.count_nonzero(one | other)
    return np.count_nonzero(one & other) / every if every else 1.0


def _mask(written: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    """Return the pixels of a mask in COCO's run lengths, in one row."""
    lengths = written["counts"]
    values = np.arange(len(lengths)) % 2 == 1
    flat = np.zeros(math.prod(written["size"]), np.bool_)
    marked = np.repeat(values, lengths)
    flat[: len(marked)] = marked[: len(flat)]
    return flat


def _mean_precision(parts: Sequence[Record]) -> float:
    """Return mAP at IoU 0.5 to 0.95, as COCO counts it: 101 recalls, all sizes."""
    counts: dict[str, int] = {}
    for part in parts:
        for kind, count in part["expected"].items():
            counts[kind] = counts.get(kind, 0) + count
    precisions = []
    for kind, count in counts.items():
        rows = sorted((row for part in parts for row in part["found"] if row[0] == kind), key=lambda row: -row[1])
        hits = np.array([row[2] for row in rows], np.int64)
        precisions += [_precision(hits >> bit & 1, count) for bit in range(len(_THRESHOLDS))]
    return float(np.mean(precisions)) if precisions else math.nan


def _precision(hits: npt.NDArray[np.int64], count: int) -> float:
    right = hits.cumsum()
    precision = np.maximum.accumulate((right / np.arange(1, len(hits) + 1))[::-1])[::-1]
    places = np.searchsorted(right / count, _RECALLS - 1e-12)
    return float(np.append(precision, 0.0)[places.clip(0, len(hits))].mean())
