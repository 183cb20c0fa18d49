"""Triton's classification extension: the best classes of an output as texts, ``score:index:label``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lightbox.base.error_texts import echo, shown
from lightbox.base.errors import BadRequest, MalformedBody
from lightbox.base.request_context import Share
from lightbox.codecs.top_k import best_classes, score_texts
from lightbox.core.request import TensorResponse
from lightbox.heads.activation import class_scores
from lightbox.heads.classes import shape_of_classes
from lightbox.model.casting import string_tensor
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array

CLASSIFICATION = "classification"
"""The parameter of an output for the number of classes."""
RANKS = (1, 2)
"""Ranks of outputs with classes: [classes] and [batch, classes]."""
_SCORE_BYTES, _ACTIVATED_BYTES, _TEXT_BYTES, _COPIES = 24, 40, 400, 3
"""Bytes for sorting each score, and for each text until the response is written, besides copies of its label."""


def read_class_count(output: str, parameters: Mapping[str, Any]) -> int | None:
    """Return the requested number of classes of an output, None for the output itself: 0, as in Triton.

    Raises MalformedBody for another value.
    """
    count = parameters.get(CLASSIFICATION, 0)
    if type(count) is not int or count < 0:
        raise MalformedBody(
            f"output {echo(output)}: {CLASSIFICATION}: expected a number of classes, 0 for none; "
            f"got {shown(count, 40)!r}"
        )
    return count or None


def classified(
    response: TensorResponse, counts: Mapping[str, int], options: ModelOptions, memory: Share
) -> TensorResponse:
    """Return a response with the number of classes in ``counts`` in place of each named output.

    They are byte strings of shape [N] or [batch, N], the largest score first. Labels apply to an output with as many
    classes. ``memory`` reserves the texts first. Raises BadRequest for an output that is neither [classes] nor
    [batch, classes], and as ``Share.hold``.
    """
    outputs = {
        name: _classes(name, array, counts[name], options, memory) if name in counts else array
        for name, array in response.outputs.items()
    }
    return TensorResponse(response.signature, outputs)


def _classes(name: str, array: Array, count: int, options: ModelOptions, memory: Share) -> Array:
    array = array.reshape(shape_of_classes(array.shape))
    if array.ndim not in RANKS or array.dtype.kind not in "iuf" or not array.shape[-1]:
        raise BadRequest(
            f"output {name}: {CLASSIFICATION}: expected an output of numbers of shape [batch,classes] or [classes], "
            f"got {array.dtype.name} {list(array.shape)}"
        )
    ends, labels = [b""] * array.shape[-1], options.labels
    if labels is not None and len(labels) == len(ends):
        ends = [f":{label}".encode() for label in labels]
    rows = np.atleast_2d(array)
    size = rows.size * _SCORE_BYTES + len(rows) * min(count, len(ends)) * (_TEXT_BYTES + _COPIES * max(map(len, ends)))
    size += rows.size * _ACTIVATED_BYTES * (options.activation is not None or options.may_give_logits)
    memory.weigh(size)
    memory.hold(memory.most + size, f"output {name}: {CLASSIFICATION}")
    rows = class_scores(rows, options)
    best = best_classes(rows, count)
    texts = [
        b"%s:%d%s" % (score, index, ends[index])
        for row, classes in zip(rows, best, strict=True)
        for score, index in zip(score_texts(row[classes]), classes.tolist(), strict=True)
    ]
    return string_tensor(texts).reshape(*array.shape[:-1], best.shape[1])
