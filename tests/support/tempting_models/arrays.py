"""Operations that order, pick and scatter values: ties, NaN, positions out of range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from support.tempting_models.cases import Case, Model, f32, flag, i32, i64

NAN, INF = float("nan"), float("inf")
ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)
TIES = [[3.0, 1.0, 3.0, 2.0, 3.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]
_WITH_NAN = [[1.0, NAN, 3.0, INF, -INF, 0.0]]
_MANY_TIES = [[float(index % 7) for index in range(500)]]
_EMPTY = np.zeros((0, 6), np.float32)

_RANKED = [(TIES,), (_WITH_NAN,), (_EMPTY,)]


def _embedding(tf: Any) -> Callable[..., Any]:
    table = tf.Variable(ROWS)
    return lambda x: tf.nn.embedding_lookup(table, x)


ORDER = Model(
    "order",
    [
        Case("top_k", {"x": f32(None, None)}, lambda tf: lambda x: tf.math.top_k(x, 3)._asdict(),
             [*_RANKED, (_MANY_TIES,)]),
        Case("top_all", {"x": f32(None, None)}, lambda tf: lambda x: tf.math.top_k(x, 6)._asdict(),
             [*_RANKED, (_MANY_TIES,)]),
        Case("top_500", {"x": f32(None, None)}, lambda tf: lambda x: tf.math.top_k(x, 500)._asdict(),
             [(_MANY_TIES,), (TIES,)]),
        Case("top_unsorted", {"x": f32(None, 6)},
             lambda tf: lambda x: tf.reduce_sum(tf.math.top_k(x, 3, False).values, 1),
             _RANKED),
        Case("top_k_of_input", {"x": f32(None, 6), "k": i32()}, lambda tf: lambda x, k: tf.math.top_k(x, k)._asdict(),
             [(TIES, 2), (TIES, 0), (TIES, 7), (TIES, -1)]),
        Case("sort", {"x": f32(None, 6)}, lambda tf: tf.sort, _RANKED),
        Case("sort_down", {"x": f32(None, 6)}, lambda tf: lambda x: tf.sort(x, direction="DESCENDING"), _RANKED),
        Case("argsort", {"x": f32(None, 6)}, lambda tf: lambda x: tf.argsort(x, stable=True), _RANKED),
        Case("argsort_down", {"x": f32(None, 6)}, lambda tf: lambda x: tf.argsort(x, direction="DESCENDING"), _RANKED),
        Case("argmax", {"x": f32(None, 6)}, lambda tf: lambda x: tf.argmax(x, 1), _RANKED),
        Case("argmax_32", {"x": f32(None, 6)}, lambda tf: lambda x: tf.argmax(x, 1, tf.int32), _RANKED),
        Case("argmax_rows", {"x": f32(None, 6)}, lambda tf: lambda x: tf.argmax(x, 0), _RANKED),
        Case("argmin", {"x": f32(None, 6)}, lambda tf: lambda x: tf.argmin(x, -1), _RANKED),
        Case("argmax_many", {"x": f32(None, None)}, lambda tf: lambda x: tf.argmax(x, 1), [(_MANY_TIES,)]),
        Case("argmax_int", {"x": i32(None, 3)}, lambda tf: lambda x: tf.argmax(x, 1), [([[16777216, 16777217, 0]],)]),
        Case("in_top_k", {"x": f32(None, 6), "at": i32(None)}, lambda tf: lambda x, at: tf.math.in_top_k(at, x, 2),
             [(TIES, [2, 5])]),
        Case("searchsorted", {"x": f32(None)}, lambda tf: lambda x: tf.searchsorted([1.0, 2.0, 2.0, 3.0], x),
             [([0.0, 2.0, 2.5, 9.0],)]),
        Case("bucketize", {"x": f32(None)}, lambda tf: lambda x: tf.raw_ops.Bucketize(input=x, boundaries=[0.0, 1.0]),
             [([-1.0, 0.0, 0.5, 1.0],)]),
        Case("best_label", {"x": f32(None, 3)},
             lambda tf: lambda x: {"label": tf.gather([10.0, 20.0, 30.0], tf.argmax(x, 1)), "p": tf.reduce_max(x, 1)},
             [([[0.1, 0.7, 0.2]],), (np.zeros((0, 3), np.float32),), ([[NAN, 0.1, 0.2]],)]),
    ],
)  # fmt: skip

PICKS = Model(
    "picks",
    [
        Case("gather", {"at": i32(None)}, lambda tf: lambda at: tf.gather(ROWS, at),
             [([0, 3],), ([4],), ([-1],), ([],)]),
        Case("gather_64", {"at": i64(None)}, lambda tf: lambda at: tf.gather(ROWS, at), [([0, 3],), ([2**32],)]),
        Case("gather_axis", {"x": f32(None, None)}, lambda tf: lambda x: tf.gather(x, [2, 0], axis=1),
             [(ROWS,), (ROWS[:, :2],)]),
        Case("gather_last", {"x": f32(None, 3)}, lambda tf: lambda x: tf.gather(x, 1), [(ROWS,), (ROWS[:1],)]),
        Case("gather_batch", {"x": f32(None, 3), "at": i32(None, 2)},
             lambda tf: lambda x, at: tf.gather(x, at, axis=1, batch_dims=1), [(ROWS[:2], [[0, 2], [1, 1]])]),
        Case("gather_argmax", {"x": f32(None, 3)}, lambda tf: lambda x: tf.gather([5.0, 6.0], tf.argmax(x, 1)),
             [([[0.9, 0.1, 0.0]],), ([[0.0, 0.1, 0.9]],)]),
        Case("gather_nd", {"at": i32(None, 2)}, lambda tf: lambda at: tf.gather_nd(ROWS, at),
             [([[0, 1], [3, 2]],), ([[4, 0]],)]),
        Case("gather_float", {"x": f32(None)}, lambda tf: lambda x: tf.gather(ROWS, tf.cast(x, tf.int32)),
             [([1.7],), ([9.0],)]),
        Case("mask", {"x": f32(None, 3), "keep": flag(None)}, lambda tf: tf.boolean_mask,
             [(ROWS, [True, False, True, True]), (ROWS, [False] * 4)]),
        Case("mask_of_values", {"x": f32(None)}, lambda tf: lambda x: tf.boolean_mask(x, x > 1),
             [([0, 2, 3],), ([0, 0],), ([],)]),
        Case("where", {"x": f32(None, 3)}, lambda tf: lambda x: tf.where(x > 4), [(ROWS,), (ROWS[:1],)]),
        Case("where_flag", {"x": flag(None)}, lambda tf: tf.where, [([True, False, True],)]),
        Case("where_float", {"x": f32(None)}, lambda tf: tf.where, [([0.0, -0.0, NAN, 0.5, 1e-40],)]),
        Case("select_broadcast", {"x": f32(None, 3)}, lambda tf: lambda x: tf.where(x[:, :1] > 3, x, 0.0), [(ROWS,)]),
        Case("select_rows", {"x": f32(None, 3), "take": flag(None)},
             lambda tf: lambda x, take: tf.raw_ops.Select(condition=take, x=x, y=-x),
             [(ROWS, [True, False, True, False])]),
        Case("unique", {"x": f32(None)}, lambda tf: lambda x: tf.unique(x)._asdict(),
             [([3, 1, 3, 2],), ([],), ([-0.0, 0.0, NAN, NAN],)]),
        Case("unique_counts", {"x": i32(None)}, lambda tf: lambda x: tf.unique_with_counts(x)._asdict(),
             [([3, 1, 3, 2],)]),
        Case("segment_sum", {"x": f32(None, 3), "to": i32(None)}, lambda tf: tf.math.segment_sum,
             [(ROWS, [0, 0, 2, 2]), (ROWS, [1, 0, 0, 0])]),
        Case("unsorted_segment", {"x": f32(None, 3), "to": i32(None)},
             lambda tf: lambda x, to: tf.math.unsorted_segment_sum(x, to, 3),
             [(ROWS, [2, 0, 2, -1]), (ROWS, [0, 1, 2, 3])]),
        Case("segment_max", {"x": f32(None, 3), "to": i32(None)},
             lambda tf: lambda x, to: tf.math.unsorted_segment_max(x, to, 3), [(ROWS, [2, 0, 2, 0])]),
        Case("scatter", {"at": i32(None, 1), "x": f32(None)}, lambda tf: lambda at, x: tf.scatter_nd(at, x, [4]),
             [([[1], [1], [3]], [1, 2, 3]), ([[4]], [1])]),
        Case("scatter_update", {"at": i32(None, 1), "x": f32(None)},
             lambda tf: lambda at, x: tf.tensor_scatter_nd_update(tf.zeros([4]), at, x),
             [([[1], [3]], [1, 2]), ([[-1]], [1])]),
        Case("scatter_add", {"at": i32(None, 1), "x": f32(None)},
             lambda tf: lambda at, x: tf.tensor_scatter_nd_add(tf.zeros([4]), at, x), [([[1], [1]], [1, 2])]),
        Case("one_hot", {"x": i32(None)}, lambda tf: lambda x: tf.one_hot(x, 3, 5.0, -1.0), [([0, 2, 3, -1],)]),
        Case("embedding", {"x": i32(None, None)}, _embedding, [([[0, 3]],), ([[4]],), ([[-1]],)]),
        Case("dynamic_partition", {"x": f32(None), "to": i32(None)},
             lambda tf: lambda x, to: dict(zip("ab", tf.dynamic_partition(x, to, 2), strict=True)),
             [([1, 2, 3], [1, 0, 1])]),
        Case("dynamic_stitch", {"x": f32(2)},
             lambda tf: lambda x: tf.dynamic_stitch([[1], [0, 2]], [x[:1], [7.0, 8.0]]),
             [([1, 2],)]),
        Case("sequence_mask", {"x": i32(None)}, lambda tf: lambda x: tf.sequence_mask(x, 4), [([0, 2, 5],)]),
        Case("setdiff", {"x": i32(None)}, lambda tf: lambda x: tf.raw_ops.ListDiff(x=x, y=[1, 2])._asdict(),
             [([3, 1, 5],)]),
        Case("bincount", {"x": i32(None)}, lambda tf: lambda x: tf.math.bincount(x, minlength=4, maxlength=4),
             [([0, 1, 1, 3],)]),
    ],
)  # fmt: skip

MODELS = (ORDER, PICKS)
