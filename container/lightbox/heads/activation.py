"""Scores of logits, as the option ``activation`` asks for."""

from __future__ import annotations

import logging
from functools import lru_cache

from lightbox.base.lazy_numpy import np
from lightbox.model.options import ActivationName, ModelOptions
from lightbox.model.spec import Array

log = logging.getLogger("lightbox")

_OF_ROUNDING, _FAR = 0.001, 0.05
"""How far outside of 0 to 1 a probability may be, and how far from 1 a sum of them: float16 has three digits."""


def class_scores(scores: Array, options: ModelOptions) -> Array:
    """Return the scores of rows of classes.

    The option ``activation`` applies to all rows. Without it a preset makes a softmax of each row of logits by itself:
    numbers outside of 0 to 1 without NaN. The network may have a softmax or sigmoids already.
    """
    if options.dequantize and scores.dtype.kind in "iu":
        scale, zero = map(np.float32, options.dequantize)
        scores = (scores.astype(np.float32) - zero) * scale
    if not options.may_give_logits:
        return activated(scores, options.activation)
    found = activated(scores, "softmax")
    are_logits = (scores.min(axis=-1) < -_OF_ROUNDING) | (scores.max(axis=-1) > 1 + _OF_ROUNDING)
    return np.where(are_logits[:, None], found, scores.astype(found.dtype))


def activated(scores: Array, activation: ActivationName | None) -> Array:
    """Return the scores of classes, the last dimension, as numbers of float32 or float64."""
    if activation in (None, "none"):
        return scores
    values = scores.astype(np.float64)
    with np.errstate(all="ignore"):  # NaN stays, and a large logit is 1
        if activation == "sigmoid":
            found = 1 / (1 + np.exp(-values))
        else:
            powers = np.exp(values - values.max(axis=-1, keepdims=True, initial=-np.inf))
            found = powers / powers.sum(axis=-1, keepdims=True)
    return found if scores.dtype == np.float64 else found.astype(np.float32)


def are_probabilities(scores: Array) -> bool:
    """Return whether each row is a distribution: no number is negative, and their sum is close to 1."""
    if not scores.size or scores.dtype.kind not in "iuf":
        return True
    sums = scores.sum(axis=-1, dtype=np.float64)
    return bool(scores.min() >= -_OF_ROUNDING and (np.abs(sums - 1) <= _FAR).all())


@lru_cache(maxsize=1000)
def warn_of_logits(model: str) -> None:
    """Log, once for each model, that its scores are no probabilities."""
    log.warning(
        "the scores of the model %r are no probabilities: set the option activation to softmax or sigmoid, or to none "
        "if they are meant so",
        model,
    )
