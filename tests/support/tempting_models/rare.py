"""Models of ordinary operations that go wrong for rare inputs only: what a few made inputs do not show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from support.tempting_models.cases import Array, Case, Model, f32, flag, i32

INF, NAN = float("inf"), float("nan")
_X = {"x": f32(None)}
_TABLE = {"x": f32(None, None)}


def _counting(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def _masked(tf: Any) -> Callable[..., Any]:
    def masked(x: Any, keep: Any) -> dict[str, Any]:
        p = tf.nn.softmax(tf.where(keep, x, -INF))
        return {"label": tf.argmax(p, 1), "best": tf.nn.relu(p)}

    return masked


def _by_hand(tf: Any) -> Callable[..., Any]:
    def softmax(x: Any) -> Any:
        e = tf.exp(x)
        return tf.nn.relu(e / tf.reduce_sum(e, -1, keepdims=True))

    return softmax


def _mean_of_kept(tf: Any) -> Callable[..., Any]:
    def mean(x: Any) -> Any:
        kept = tf.boolean_mask(x, x > 0.5)
        return tf.maximum(tf.reduce_sum(kept) / tf.cast(tf.size(kept), tf.float32), 0.0)

    return mean


def _turned(tf: Any) -> Callable[..., Any]:
    kernel = tf.ones([3, 3, 1, 1])
    return lambda x: tf.nn.conv2d_transpose(x, kernel, [tf.shape(x)[0], 8, 8, 1], 2, "SAME")


HIDDEN = Model(
    "rare_nan",
    [
        Case("exp_difference", _X, lambda tf: lambda x: tf.nn.relu(tf.exp(x) - tf.exp(x)), [([1.0],), ([100.0],)]),
        Case("square_difference", _X, lambda tf: lambda x: tf.nn.relu(x * x * x - x * x * x), [([1e14, 1.0],)]),
        Case("exp_by_zero", _X, lambda tf: lambda x: tf.nn.relu(tf.exp(x) * 0.0), [([1.0],), ([100.0],)]),
        Case("softmax_by_hand", _TABLE, _by_hand, [([[1, 2]],), ([[100, 2]],)]),
        Case("resized", {"x": f32(None, 2, 2, 1)},
             lambda tf: lambda x: tf.nn.relu(tf.image.resize(tf.math.log(x), [3, 3])),
             [(np.ones((1, 2, 2, 1), np.float32),), (-np.ones((1, 2, 2, 1), np.float32),)]),
        Case("constant", _X, lambda tf: lambda x: tf.maximum(x + tf.constant([0.0, NAN]), 0.0), [([1, 2],)]),
        Case("padded", _X, lambda tf: lambda x: tf.nn.relu(tf.pad(x, [[0, 1]], constant_values=NAN)), [([1, 2],)]),
        Case("masked_softmax", {"x": f32(None, 2), "keep": flag(None, 2)}, _masked,
             [([[1, 2]], [[True, False]]), ([[1, 2]], [[False, False]])]),
        Case("by_constant_zero", _X, lambda tf: lambda x: tf.nn.relu(x / tf.constant([0.0])), [([1, -1],), ([0.0],)]),
        Case("mean_of_kept", _X, _mean_of_kept, [([1, 2],), ([0.25, 0.125],)]),
        Case("mean_of_slice", _TABLE, lambda tf: lambda x: tf.reduce_mean(x[:, 3:], 1),
             [(_counting(2, 5),), (_counting(2, 2),)]),
        Case("max_of_slice", _TABLE, lambda tf: lambda x: tf.reduce_max(x[:, 3:], 1),
             [(_counting(2, 5),), (_counting(2, 2),)]),
        Case("min_of_kept", _X, lambda tf: lambda x: tf.reduce_min(tf.boolean_mask(x, x > 0.5)),
             [([1, 2],), ([0.25],)]),
        Case("argmax_of_slice", _TABLE, lambda tf: lambda x: tf.argmax(x[:, 3:], 1),
             [(_counting(2, 5),), (_counting(2, 2),)]),
        Case("sine", _X, lambda tf: lambda x: tf.nn.relu(tf.sin(tf.exp(x))), [([1.0],), ([100.0],)]),
        Case("normalised", _TABLE, lambda tf: lambda x: tf.nn.relu(x / tf.norm(x, axis=1, keepdims=True)),
             [([[3, 4]],), ([[0, 0]],)]),
        Case("power", _X, lambda tf: lambda x: tf.nn.relu(tf.pow(x, 0.5)), [([4.0],), ([-4.0],)]),
        Case("batch_norm", {"x": f32(None, 1, 1, 1)}, lambda tf: lambda x: tf.nn.relu(
             tf.compat.v1.nn.fused_batch_norm(x * x, [1.0], [0.0], [INF], [1.0], is_training=False)[0]),
             [(np.full((1, 1, 1, 1), 1e10, np.float32),), (np.full((1, 1, 1, 1), 1e14, np.float32),)]),
        Case("sum", _X, lambda tf: lambda x: tf.nn.relu(tf.reduce_sum(tf.exp(x)) - tf.exp(100.0 * x[0])),
             [([1.0, 100.0],)]),
        Case("matmul", {"x": f32(None, 2)}, lambda tf: lambda x: tf.nn.relu(tf.matmul(tf.exp(x), [[1.0], [-1.0]])),
             [([[1, 2]],), ([[100, 100]],)]),
    ],
)  # fmt: skip

ERRORS = Model(
    "rare_errors",
    [
        Case("gather_flag", _X, lambda tf: lambda x: tf.gather([7.0], tf.cast(x > 0, tf.int32)), [([-1.0],), ([1.0],)]),
        Case("gather_other", {"x": f32(None), "of": f32(None)}, lambda tf: lambda x, of: tf.gather(of, tf.argmax(x)),
             [([1, 2], [5, 6]), ([1, 2, 3], [5, 6])]),
        Case("gather_where", {"x": f32(None), "of": f32(None)},
             lambda tf: lambda x, of: tf.gather(of, tf.where(x > 0)[:, 0]), [([1, -2], [5, 6]), ([1, 2, 3], [5, 6])]),
        Case("gather_nd_where", {"x": f32(None), "of": f32(None)},
             lambda tf: lambda x, of: tf.gather_nd(of, tf.where(x > 0)), [([1, -2], [5, 6]), ([1, 2, 3], [5, 6])]),
        Case("gather_top", {"x": f32(None, None), "of": f32(None)},
             lambda tf: lambda x, of: tf.gather(of, tf.math.top_k(x, 1).indices),
             [([[1, 2]], [5, 6]), ([[1, 2, 3]], [5, 6])]),
        Case("gather_size", _X, lambda tf: lambda x: tf.gather([5.0, 6.0, 7.0], tf.size(x)), [([1],), ([1, 2, 3],)]),
        Case("slice_at", {"x": f32(None)}, lambda tf: lambda x: tf.slice(x, [tf.argmax(x)], [2]),
             [([3, 2, 1],), ([1, 2, 3],)]),
        Case("item_at", {"x": f32(None), "of": f32(None)}, lambda tf: lambda x, of: of[tf.argmax(x)],
             [([1, 2], [5, 6]), ([1, 2, 3], [5, 6])]),
        Case("last", _X, lambda tf: lambda x: x[3] + 1, [([1, 2, 3, 4],), ([1, 2],)]),
        Case("from_end", _X, lambda tf: lambda x: x[-3] + 1, [([1, 2, 3, 4],), ([1, 2],)]),
        Case("divided", {"x": f32(None)}, lambda tf: lambda x: 10 // tf.argmax(x, 0, tf.int32), [([1, 2],), ([2, 1],)]),
        Case("remainder", {"x": f32(None)}, lambda tf: lambda x: 10 % tf.argmax(x, 0, tf.int32),
             [([1, 2],), ([2, 1],)]),
        Case("divided_by_size", {"x": f32(None)}, lambda tf: lambda x: 10 // tf.size(x[2:]), [([1, 2, 3],), ([2, 1],)]),
        Case("range_steps", {"x": f32(None)}, lambda tf: lambda x: tf.range(0, 5, tf.argmax(x, 0, tf.int32)),
             [([1, 2],), ([2, 1],)]),
        Case("range_of_floats", {"x": f32()}, lambda tf: lambda x: tf.range(0.0, 1.0, x), [(0.25,), (-1.0,), (0.0,)]),
        Case("range_to", {"x": f32()}, lambda tf: lambda x: tf.range(0.0, x), [(2.5,), (-1.0,)]),
        Case("range_from", {"n": i32()}, lambda tf: lambda n: tf.range(n, 5), [(2,), (7,)]),
        Case("range_sizes", _X, lambda tf: lambda x: tf.range(3, tf.size(x)), [([1, 2, 3, 4],), ([1],)]),
        Case("bias", _TABLE, lambda tf: lambda x: tf.nn.bias_add(x, [1.0, 2.0, 3.0]),
             [(_counting(2, 3),), (_counting(2, 1),)]),
        Case("sum_of_unlike", {"x": f32(None), "z": f32(None)}, lambda tf: lambda x, z: tf.add_n([x, z]),
             [([1, 2], [3, 4]), ([1, 2], [3])]),
        Case("batch_norm", {"x": f32(None, None, None, None)}, lambda tf: lambda x:
             tf.compat.v1.nn.fused_batch_norm(x, [1.0] * 3, [0.5] * 3, [0.1] * 3, [1.0] * 3, is_training=False)[0],
             [(_counting(1, 2, 2, 3),), (_counting(1, 2, 2, 1),)], not_eager=(1,)),
        Case("transposed", {"x": f32(None, None, None, 1)}, _turned,
             [(_counting(1, 4, 4, 1),), (_counting(1, 3, 5, 1),)]),
        Case("mirror", _TABLE, lambda tf: lambda x: tf.pad(x, [[0, 0], [2, 1]], "REFLECT"),
             [(_counting(2, 3),), (_counting(2, 2),)]),
        Case("symmetric", _TABLE, lambda tf: lambda x: tf.pad(x, [[0, 0], [2, 1]], "SYMMETRIC"),
             [(_counting(2, 2),), (_counting(2, 1),)]),
        Case("depth_to_space", {"x": f32(None, 2, 2, None)}, lambda tf: lambda x: tf.nn.depth_to_space(x, 2),
             [(_counting(1, 2, 2, 4),), (_counting(1, 2, 2, 3),)]),
        Case("space_to_depth", {"x": f32(None, None, None, 1)}, lambda tf: lambda x: tf.nn.space_to_depth(x, 2),
             [(_counting(1, 4, 4, 1),), (_counting(1, 5, 5, 1),)]),
        Case("space_to_batch", {"x": f32(None, None, None, 1)},
             lambda tf: lambda x: tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]]),
             [(_counting(1, 4, 4, 1),), (_counting(1, 5, 4, 1),)]),
        Case("batch_to_space", {"x": f32(None, 2, 2, 1)},
             lambda tf: lambda x: tf.batch_to_space(x, [2, 2], [[0, 0], [0, 0]]),
             [(_counting(4, 2, 2, 1),), (_counting(3, 2, 2, 1),)]),
        Case("max_pool", {"x": f32(None, None, None, 1)}, lambda tf: lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"),
             [(_counting(1, 4, 4, 1),), (_counting(1, 1, 1, 1),)]),
        Case("avg_pool", {"x": f32(None, None, None, 1)}, lambda tf: lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID"),
             [(_counting(1, 4, 4, 1),), (_counting(1, 1, 1, 1),)]),
        Case("conv", {"x": f32(None, None, None, 1)},
             lambda tf: lambda x: tf.nn.conv2d(x, tf.ones([3, 3, 1, 1]), 1, "VALID"),
             [(_counting(1, 4, 4, 1),), (_counting(1, 3, 4, 1),)]),
        Case("conv_groups", {"x": f32(None, None, None, None)},
             lambda tf: lambda x: tf.nn.conv2d(x, tf.reshape(tf.range(8.0), [1, 1, 2, 4]), 1, "VALID"),
             [(_counting(1, 2, 2, 2),), (_counting(1, 2, 2, 4),), (_counting(1, 2, 2, 3),)]),
        Case("unstack", _TABLE, lambda tf: lambda x: dict(zip("abc", tf.unstack(x, 3, 1), strict=True)),
             [(_counting(2, 3),), (_counting(2, 4),)]),
        Case("split", _TABLE, lambda tf: lambda x: dict(zip("ab", tf.split(x, [3, 1], 1), strict=True)),
             [(_counting(2, 4),), (_counting(2, 5),)]),
        Case("squeeze", {"x": f32(None, None, 2)}, lambda tf: lambda x: tf.squeeze(x, 1),
             [(_counting(2, 1, 2),), (_counting(2, 2, 2),)]),
        Case("broadcast_to", {"x": f32(None, None)}, lambda tf: lambda x: tf.broadcast_to(x, [2, 4, 3]),
             [(_counting(1, 3),), (_counting(2, 3),)]),
        Case("reshape", {"x": f32(None, None)}, lambda tf: lambda x: tf.reshape(x, [2, 3]),
             [(_counting(3, 2),), (_counting(2, 2),)]),
        Case("select", {"x": f32(None, 2), "take": flag(None)},
             lambda tf: lambda x, take: tf.raw_ops.Select(condition=take, x=x, y=-x),
             [(_counting(2, 2), [True, False]), (_counting(3, 2), [True, False])]),
        Case("concat", {"x": f32(None, None), "z": f32(None, None)}, lambda tf: lambda x, z: tf.concat([x, z], 1),
             [(_counting(2, 2), _counting(2, 1)), (_counting(2, 2), _counting(1, 1))]),
        Case("boxes", {"boxes": f32(None, None), "scores": f32(None)},
             lambda tf: lambda boxes, scores: tf.image.non_max_suppression(boxes, scores, 3),
             [(_counting(2, 4), [1, 2]), (_counting(2, 5), [1, 2])]),
        Case("resize", {"x": f32(None, None, None, 1)}, lambda tf: lambda x: tf.image.resize(x[:, 2:], [3, 3]),
             [(_counting(1, 4, 4, 1),), (_counting(1, 2, 2, 1),)]),
        Case("top", _TABLE, lambda tf: lambda x: tf.math.top_k(x, 3).values, [(_counting(2, 4),), (_counting(2, 2),)]),
        Case("mask", {"x": f32(None), "keep": flag(None)}, lambda tf: tf.boolean_mask,
             [([1, 2], [True, False]), ([1, 2], [True])], not_eager=(1,)),
    ],
)  # fmt: skip


def _many(tf: Any) -> Callable[..., Any]:
    return lambda x: {"mean": tf.reduce_mean(tf.tile(x, [500_000])), "sum": tf.reduce_sum(tf.tile(x, [500_000]))}


VALUES = Model(
    "rare_values",
    [
        Case("wide_branch", _X,
             lambda tf: lambda x: tf.where(x > 1e6, tf.constant(2**40, tf.int64), tf.constant(5, tf.int64)),
             [([1.0],), ([2e6],)]),
        Case("wide_gather", _X, lambda tf: lambda x: tf.gather(tf.constant([5, 2**40], tf.int64), tf.argmax(x)),
             [([2.0, 1.0],), ([1.0, 2.0],)]),
        Case("wide_times_size", _X, lambda tf: lambda x: tf.size(x, tf.int64) * 2**31, [([],), ([1.0, 2.0],)]),
        Case("sum_of_shape", _TABLE, lambda tf: lambda x: tf.reduce_sum(tf.shape(x) * 8388608 + 1),
             [(_counting(2, 2),), (_counting(1, 1),)]),
        Case("equal_of_size", _X, lambda tf: lambda x: tf.equal(tf.size(x) + 16777215, 16777216), [([1],), ([1, 2],)]),
        Case("to_int64", _X, lambda tf: lambda x: tf.cast(tf.fill([tf.size(x)], 3e9), tf.int64), [([1, 2],)]),
        Case("floor_int", _X, lambda tf: lambda x: tf.cast(tf.floor(x * 10), tf.int32), [([0.25, -0.25],), ([3e9],)]),
        Case("times_flag", _X, lambda tf: lambda x: tf.cast(x > 0, tf.int32) * 2**30 * 4, [([1, -1],)]),
        Case("mean_of_many", _X, _many, [([0.1, 0.3],)]),
        Case("log1p_tail", _X, lambda tf: lambda x: tf.math.log1p(x) * 1e8, [([1e-8, 3e-8, 1e-4],)]),
        Case("expm1_tail", _X, lambda tf: lambda x: tf.math.expm1(x) * 1e8, [([1e-8, -3e-8, 1e-4],)]),
        Case("softplus_tail", _X, lambda tf: lambda x: tf.math.softplus(x) * 1e8,
             [([-20.0, -17.0],), ([-14.0, 14.0],)]),
        Case("sigmoid_tail", _X, lambda tf: lambda x: tf.sigmoid(x) * 1e8, [([-20.0, -17.0],)]),
        Case("one_less_sigmoid", _X, lambda tf: lambda x: 1.0 - tf.sigmoid(x), [([5.0, 10.0, 16.0],)]),
        Case("erfc_tail", _X, lambda tf: lambda x: tf.math.erfc(x) * 1e11, [([5.0, 4.5],)]),
        Case("erf_small", _X, lambda tf: lambda x: tf.math.erf(x) * 1e8, [([1e-8, -1e-8],)]),
        Case("tanh_small", _X, lambda tf: lambda x: tf.tanh(x) * 1e8, [([1e-8, 3e-8],)]),
        Case("gelu_tail", _X, lambda tf: lambda x: tf.nn.gelu(x) * 1e6, [([-5.0, -4.5],)]),
        Case("elu_small", _X, lambda tf: lambda x: tf.nn.elu(x) * 1e8, [([-1e-8, -3e-8],)]),
        Case("exp_tail", _X, lambda tf: lambda x: tf.exp(x) * 1e30, [([-69.0, -80.0],)]),
        Case("log_near_one", _X, lambda tf: lambda x: tf.math.log(x) * 1e7, [([1.0000001, 0.9999999],)]),
        Case("sine_of_large", _X, lambda tf: tf.sin, [([1e3, 1e5],), ([1e7, 1e12],)]),
        Case("cosine_of_large", _X, lambda tf: tf.cos, [([1e3, 1e5],), ([1e7, 1e12],)]),
        Case("softmax_tail", {"x": f32(None, 3)}, lambda tf: lambda x: tf.nn.softmax(x) * 1e10, [([[0, -20, -21]],)]),
        Case("log_of_softmax", {"x": f32(None, 3)}, lambda tf: lambda x: tf.math.log(tf.nn.softmax(x)),
             [([[0, -20, -80]],)]),
        Case("threshold", _X, lambda tf: lambda x: tf.cast(x * 0.1 + 0.2 > 0.3, tf.float32),
             [([0.99999994, 1.0, 1.0000001],)]),
        Case("nearest_half", {"x": f32(None, 4, 4, 1)},
             lambda tf: lambda x: tf.raw_ops.ResizeNearestNeighbor(images=x, size=[6, 6], half_pixel_centers=True),
             [(_counting(1, 4, 4, 1),)]),
        Case("nearest_many", {"x": f32(None, None, None, 1)},
             lambda tf: lambda x: tf.raw_ops.ResizeNearestNeighbor(images=x, size=[7, 100], half_pixel_centers=False),
             [(_counting(1, 13, 33, 1),), (_counting(1, 300, 299, 1),)]),
        Case("power_of_two", _X, lambda tf: lambda x: tf.pow(x, 2.0) - x * x, [([1.1, 3.3, 1e4],)]),
        Case("tiny_inverse", _X, lambda tf: lambda x: 1e-30 / (x * 1e-30 * 1e-10) * 1e-15, [([1.0],)]),
        Case("tiny_sum", _X, lambda tf: lambda x: (x * 1e-30 * 1e-9 + x * 1e-30 * 1e-9) * 1e38, [([1.0],)]),
        Case("tiny_compare", _X, lambda tf: lambda x: x * 1e-30 * 1e-10 > 0.0, [([1.0, -1.0, 0.0],)]),
        Case("flag_to_float", {"x": flag(None)}, lambda tf: lambda x: tf.cast(x, tf.float32),
             [([True, False],)]),
    ],
)  # fmt: skip

MODELS = (HIDDEN, ERRORS, VALUES)
