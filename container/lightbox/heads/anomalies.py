"""Anomalies: how far an image is from good ones, and where, as anomalib and OpenVINO's ModelAPI give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lightbox.base.errors import ModelFailed
from lightbox.base.lazy_numpy import np
from lightbox.heads.maps import BESIDE_ANOMALIES, MIDDLE, Area, areas_of, maps_in, normal, placed_in_images
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, ModelCall

SCORE, LABEL, MASK = BESIDE_ANOMALIES


class Anomaly(NamedTuple):
    """The answer of one image: its score, the file's decision, and the part beyond the threshold."""

    score: float
    is_one: bool
    part: Area


def anomalies(outputs: Mapping[str, Array], options: ModelOptions, call: ModelCall) -> Iterator[Anomaly]:
    """Yield the anomaly of each image, of outputs with a map.

    The model's own decisions count; without them what is beyond the middle. Raises ModelFailed for other numbers of
    images.
    """
    beside = {name: outputs[name] for name in BESIDE_ANOMALIES if name in outputs}
    if counts := {len(found) for found in beside.values()} - {len(call.placed)}:
        raise ModelFailed(f"map: expected outputs for {len(call.placed)} images, got {counts.pop()}")
    ((_, values),) = maps_in(outputs, options).items()
    image, pixel, _ = options.thresholds or (MIDDLE, MIDDLE, 1)
    highest = beside[SCORE] if SCORE in beside else normal(values, options, image)
    scores = highest.reshape(len(values), -1).max(axis=1)
    labels = beside[LABEL].reshape(len(values), -1)[:, 0] if LABEL in beside else scores > MIDDLE
    # As ModelAPI resizes: the part, not the numbers.
    beyond = beside[MASK] if MASK in beside else np.greater_equal(normal(values, options, pixel), MIDDLE)
    found = placed_in_images(beyond.astype(np.float32), options, call, are_masks=True)
    for score, label, values in zip(scores.tolist(), labels.tolist(), found, strict=True):
        parts = areas_of((values >= MIDDLE).astype(np.uint8))
        none = Area(1, 0.0, np.array([values.size]))
        yield Anomaly(score, bool(label), next((part for part in parts if part.number), none))
