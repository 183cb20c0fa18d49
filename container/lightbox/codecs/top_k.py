"""The best classes, or the objects, of each row of a prediction by name, as the options of a model ask for.

Each row is JSON text, so that scores have the same digits as in other responses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np

from lightbox.base.errors import ModelFailed
from lightbox.codecs.json_text import array_text, to_json
from lightbox.heads import classes_problem, find_objects, has_objects
from lightbox.heads.activation import activated, are_probabilities, class_scores, warn_of_logits
from lightbox.heads.anomalies import Anomaly, anomalies
from lightbox.heads.classes import DEFAULT_TOP_K, other_classes, shape_of_classes
from lightbox.heads.maps import OF_ANOMALIES, OF_CLASSES, areas_of
from lightbox.heads.masks import Part, polygons, run_lengths
from lightbox.heads.placing import MaskOf, Shown, shown
from lightbox.heads.tensorflow import BOXES, CLASSES, NUMBER, SCORES, is_detector, plainly
from lightbox.images.preparation import Size
from lightbox.model.options import ActivationName, ModelOptions
from lightbox.model.spec import Array, Mark, ModelCall
from lightbox.model.text_vectors import similarities


def ranked_rows(
    outputs: Mapping[str, Array], options: ModelOptions, call: ModelCall, mark: Mark | None = None
) -> list[bytes] | None:
    """Return ``[{"label", "class", "score"}, ...]`` of each row, the largest score first; None if not applicable.

    For one output [rows, classes]: the ``top_k`` best classes, 5 by default; without labels the items have none. For
    the outputs of a detector: all objects that it counts, at most ``top_k``, with their ``box`` as in the output. With
    ``detections``: boxes in pixels of the images of ``call``. ``mark`` gets the masks, which then are in no row.
    None for a signature without such outputs. Raises ModelFailed for outputs without valid values.
    """
    labels, model = tuple(options.labels or ()), call.signature.model
    if options.detections is not None and not has_objects(options, call.signature, outputs):
        return None
    if is_detector(outputs):
        outputs = plainly(outputs)
        outputs[SCORES] = _scores_of_objects(outputs[SCORES], options.activation, model)
    if options.detections is not None:
        return [_found(labels, objects) for objects in _detected(outputs, options, call, mark)]
    if is_detector(outputs):
        return _objects(outputs, labels, options.top_k)
    name, scores = next(iter(outputs.items())) if len(outputs) == 1 else ("", None)
    spec = call.signature.outputs.get(name)
    if scores is not None and spec is not None and spec.shape and len(shape_of_classes(spec.shape)) == 2:
        scores = scores.reshape(len(scores), -1) if scores.size else scores
    if scores is None or scores.ndim != 2 or scores.dtype.kind not in "iuf" or not scores.shape[1]:
        return None
    if spec is not None and other_classes(options, spec) is not None:
        return None
    if options.text_vectors is not None:
        scores = similarities(scores, options.text_vectors, options.logit_scale, options.logit_bias)
    if labels and len(labels) != scores.shape[1]:
        raise ModelFailed(f"labels: expected one for each of the {scores.shape[1]} classes, got {len(labels)}")
    scores = class_scores(scores, options)
    if options.activation is None and options.text_vectors is None and not are_probabilities(scores):
        warn_of_logits(model)
    return [_items(row, best, labels) for row, best in zip(scores, best_classes(scores, options.top_k), strict=True)]


def in_pixels(options: ModelOptions, outputs: Collection[str]) -> ModelOptions:
    """Return the options with which the objects of these outputs have boxes in pixels of the image."""
    is_plain = options.detections is None and is_detector(outputs)
    return options.model_copy(update={"detections": "tf"}) if is_plain else options


def best_classes(scores: Array, top_k: int | None) -> Array:
    """Return the classes of each row by score; for equal scores the lower class comes first, NaN comes last."""
    count = min(top_k or DEFAULT_TOP_K, scores.shape[1])
    values = scores.astype(np.float64)
    values[np.isnan(values)] = -np.inf
    return np.argsort(-values, axis=1, kind="stable")[:, :count]


def _items(scores: Array, classes: Array, labels: tuple[str, ...]) -> bytes:
    heads, numbers = _heads(labels), score_texts(scores[classes])
    items = (_head(heads, int(index)) + number + b"}" for index, number in zip(classes.tolist(), numbers, strict=True))
    return b"[" + b",".join(items) + b"]"


def _scores_of_objects(scores: Array, activation: ActivationName | None, model: str) -> Array:
    if activation is None and scores.size and scores.dtype.kind == "f" and not 0 <= scores.min() <= scores.max() <= 1:
        warn_of_logits(model)
    return activated(scores, activation) if activation == "sigmoid" else scores


def _objects(outputs: Mapping[str, Array], labels: tuple[str, ...], top_k: int | None) -> list[bytes]:
    heads, rows = _heads(labels), []
    scores, classes, boxes = (outputs[name] for name in (SCORES, CLASSES, BOXES))
    for row in range(len(scores)):
        count = max(0, int(np.nan_to_num(outputs[NUMBER][row]))) if NUMBER in outputs else scores.shape[1]
        best = np.argsort(-scores[row][:count], kind="stable")[:top_k]
        rows.append(_boxed(heads, classes[row][best], scores[row][best], boxes[row][best]))
    return rows


def _detected(
    outputs: Mapping[str, Array], options: ModelOptions, call: ModelCall, mark: Mark | None
) -> Iterator[Shown]:
    """Yield the objects in each image, in its pixels; for number inputs in those of the input."""
    wanted = call.signature.image
    assert options.detections is not None and wanted is not None, "it has objects"
    height, width = (call.inputs[wanted.name].shape[side] for side in wanted.sides)
    shapes = {name: array.shape for name, array in outputs.items()}
    if problem := classes_problem(options, shapes):
        raise ModelFailed(f"labels: {problem}")
    found = find_objects(outputs, (width, height), options, [placed.area for placed in call.placed])
    if call.placed and len(call.placed) != len(found):
        raise ModelFailed(f"the model answers {len(call.placed)} images with objects of {len(found)}")
    with np.errstate(all="ignore"):  # NaN is in no mask
        for index, objects in enumerate(found):
            placed = call.placed[index] if call.placed else None
            one = shown(objects, (width, height), placed, _marked_by(mark) if mark else _MASKS[options.masks])
            yield one._replace(masks=None) if mark else one


def _marked_by(mark: Mark) -> MaskOf:
    def marked(number: int, parts: list[Part], size: Size) -> None:
        for part in parts:
            mark(number, *part)

    return marked


def _lengths(number: int, parts: list[Part], size: Size) -> bytes:
    return _mask(size[::-1], run_lengths(parts, size))


_MASKS: Mapping[str, MaskOf] = {"rle": _lengths, "polygon": lambda number, parts, size: to_json(polygons(parts))}


def map_rows(
    maps: Mapping[str, Array], outputs: Mapping[str, Array], options: ModelOptions, call: ModelCall
) -> list[bytes] | None:
    """Return ``[{"label", "class", "share", "mask"}, ...]`` of each map of classes or anomalies; None for others."""
    labels, (values,) = tuple(options.labels or ()), maps.values()
    if options.map == OF_ANOMALIES:
        return [_anomaly(one, labels, values.shape[1:]) for one in anomalies(outputs, options, call)]
    return [_areas(one, labels) for one in values] if options.map in OF_CLASSES else None


def _anomaly(found: Anomaly, labels: tuple[str, ...], size: tuple[int, ...]) -> bytes:
    """Return both classes, the one that the file decides for first, as it may have a threshold of its own."""
    scores, heads = score_texts(np.array([1 - found.score, found.score], np.float32)), _heads(labels)
    part = b',"share":%s,"mask":%s' % (to_json(found.part.share), _mask(size, found.part.lengths))
    items = [_head(heads, 0) + scores[0] + b"}", _head(heads, 1) + scores[1] + part + b"}"]
    return b"[" + b",".join(items[::-1] if found.is_one else items) + b"]"


def _mask(size: tuple[int, ...], lengths: Array) -> bytes:
    height, width = size
    return b'{"size":[%d,%d],"counts":%s}' % (height, width, array_text(lengths))


def _areas(numbers: Array, labels: tuple[str, ...]) -> bytes:
    """Return the classes of a map with their share of the pixels, the largest first, and where they are."""
    items, heads = [], _heads(labels)
    for number, share, lengths in areas_of(numbers):
        head = heads[number] if number < len(heads) else b'{"class":%d,"score":' % number
        mask = _mask(numbers.shape, lengths)
        items.append(b'%s"share":%s,"mask":%s}' % (head.removesuffix(b'"score":'), to_json(share), mask))
    return b"[" + b",".join(items) + b"]"


def _found(labels: tuple[str, ...], found: Shown) -> bytes:
    objects, parts = found.objects, dict[bytes, Iterable[bytes]]()
    if found.masks is not None:
        parts[b"mask"] = found.masks
    if objects.keypoints is not None:
        parts[b"keypoints"] = map(array_text, objects.keypoints)
    if found.corners is not None:
        parts[b"corners"] = map(array_text, found.corners)
    return _boxed(_heads(labels), objects.classes, objects.scores, objects.boxes, parts)


def _boxed(
    heads: list[bytes],
    classes: Array,
    scores: Array,
    boxes: Array,
    parts: Mapping[bytes, Iterable[bytes]] | None = None,
) -> bytes:
    named = [[b',"%s":%s' % (name, text) for text in texts] for name, texts in (parts or {}).items()]
    items = (
        b"".join((_head(heads, int(index)), score, b',"box":', array_text(box), *more, b"}"))
        for index, score, box, *more in zip(classes.tolist(), score_texts(scores), boxes, *named, strict=True)
    )
    return b"[" + b",".join(items) + b"]"


def score_texts(numbers: Array) -> Sequence[bytes]:
    """Return the text of each number of one row, as in all JSON responses."""
    return array_text(numbers)[1:-1].split(b",") if numbers.size else ()


@lru_cache(maxsize=64)
def _heads(labels: tuple[str, ...]) -> list[bytes]:
    """Return the first part of the JSON item of each class."""
    return [b'{"label":' + to_json(label) + b',"class":%d,"score":' % index for index, label in enumerate(labels)]


def _head(heads: list[bytes], index: int) -> bytes:
    if heads and index >= len(heads):
        raise ModelFailed(
            f"labels: expected a name for the class {index}, got {len(heads)} names for 0 to {len(heads) - 1}; if the "
            "model counts its classes from 1, as TensorFlow's detectors do, begin them with a line for the background"
        )
    return heads[index] if 0 <= index < len(heads) else b'{"class":%d,"score":' % index
