"""Made-up inputs of a signature, from its declaration: to compare, time and warm up engines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from lightbox.model_runtime.engines.base import Array, Runner
from lightbox.model_runtime.wire.dtypes import OWN_ROWS, numpy_dtype
from lightbox.model_runtime.wire.messages import meta_graph_pb2
from lightbox.model_runtime.wire.status import StatusError

BATCHES = (1, 3)
SEED = 20180113

_SIDES = (224, 32, 8)
_LENGTH = 8
_PIXEL = 255


def batches(signature: meta_graph_pb2.SignatureDef, count: int, side: int = _SIDES[0]) -> list[dict[str, Array]]:
    """Return inputs by tensor name, with ``count`` rows if the first dimension is open, and ``side`` for open sides.

    Floats are of three kinds: around 0, from 0 to 255 like pixels, and all equal, which gives tied results.
    """
    kinds = ("normal", "pixels", "equal")
    return [_feeds(signature, count, side, kind) for kind in kinds]


def mark_rows(runner: Runner) -> None:
    """Mark outputs with an open first dimension by their rows for made-up inputs of one row.

    Those with another number of rows get a name. Where all inputs have one row, the others are declared to have one,
    too: the exporter has lost it.
    """
    for signature in runner.signatures.values():
        outputs = [info for info in signature.outputs.values() if _is_open(info)]
        is_fixed = all(_has_one_row(info) for info in signature.inputs.values())
        if not outputs or not (is_fixed or all(map(_is_open, signature.inputs.values()))):
            continue
        runs: list[list[Array]] = []
        for side in sides(signature):
            for feeds in batches(signature, 1, side)[:2]:
                with suppress(StatusError):  # made-up inputs do not fit every model
                    runs.append(runner.run(feeds, [info.name for info in outputs]))
            if runs:
                break
        for info, *found in zip(outputs, *runs, strict=True) if runs else ():
            if any(array.shape[:1] != (1,) for array in found):
                info.tensor_shape.dim[0].name = OWN_ROWS
            elif is_fixed:
                info.tensor_shape.dim[0].size = 1


def _is_open(info: meta_graph_pb2.TensorInfo) -> bool:
    return bool(info.tensor_shape.dim) and info.tensor_shape.dim[0].size < 0


def _has_one_row(info: meta_graph_pb2.TensorInfo) -> bool:
    return bool(info.tensor_shape.dim) and info.tensor_shape.dim[0].size == 1


def sides(signature: meta_graph_pb2.SignatureDef) -> Iterator[int]:
    """Yield sides to try for the open dimensions of images; a single one if there are none."""
    is_open = any(_has_open_sides(info) for info in signature.inputs.values())
    yield from _SIDES if is_open else _SIDES[:1]


def _has_open_sides(info: meta_graph_pb2.TensorInfo) -> bool:
    return len(info.tensor_shape.dim) == 4 and any(dim.size < 0 for dim in info.tensor_shape.dim[1:3])


def _feeds(signature: meta_graph_pb2.SignatureDef, count: int, side: int, kind: str) -> dict[str, Array]:
    random = np.random.default_rng(SEED)
    return {
        info.name: _array(numpy_dtype(info.dtype), _shape(info, count, side), kind, random)
        for _, info in sorted(signature.inputs.items())
    }


def _shape(info: meta_graph_pb2.TensorInfo, count: int, side: int) -> tuple[int, ...]:
    sizes = [dim.size for dim in info.tensor_shape.dim]
    other = side if len(sizes) == 4 else _LENGTH
    return tuple(size if size >= 0 else (count if at == 0 else other) for at, size in enumerate(sizes))


def _array(dtype: np.dtype[np.generic], shape: tuple[int, ...], kind: str, random: np.random.Generator) -> Array:
    if dtype.kind == "f":
        if kind == "normal":
            return random.standard_normal(shape).astype(dtype)
        if kind == "pixels":
            return random.uniform(0, _PIXEL, shape).astype(dtype)
        return np.full(shape, 0.5, dtype)
    if dtype.kind == "b":
        return np.asarray(random.integers(0, 2, shape) > 0)  # comparing a scalar gives no array
    most = {"normal": 16, "pixels": _PIXEL, "equal": 0}[kind]
    return random.integers(0, most + 1, shape).astype(dtype)
