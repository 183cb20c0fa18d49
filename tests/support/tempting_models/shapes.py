"""Reductions and layouts: empty arrays, open dimensions, scalars, inputs and outputs that are no computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from support.tempting_models.cases import Array, Case, Model, Spec, f32, flag, i32, u8

NAN, INF = float("nan"), float("inf")
ROWS = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7.5
NO_ROWS = ROWS[:0]
_OPEN = {"x": f32(None, 3, 4)}
_ANY = {"x": Spec("float32", None)}
_ALL_OPEN = {"x": f32(None, None, None)}
_BOTH = [(ROWS,), (NO_ROWS,)]

_NAMES = ("sum", "mean", "max", "min", "prod", "logsumexp", "std", "variance")


def _reduced(name: str) -> list[Case]:
    def over(axes: Any, keep: bool = False) -> Callable[[Any], Callable[..., Any]]:
        return lambda tf: lambda x: getattr(tf.math, f"reduce_{name}")(x, axes, keep)

    calls = [*_BOTH, (np.where(ROWS == 0.5, NAN, ROWS),), (np.full((1, 3, 4), 3e38, np.float32),)]
    return [
        Case(name, _OPEN, over(None), calls),
        Case(f"{name}_rows", _OPEN, over(0), calls),
        Case(f"{name}_two", _OPEN, over([1, -1], keep=True), calls),
        Case(f"{name}_of_none", {"x": f32(None, 0)}, over(1), [(np.zeros((2, 0), np.float32),)]),
    ]


def _turned(tf: Any) -> Callable[..., Any]:
    def turned(x: Any) -> Any:
        turned = tf.transpose(x, [2, 1, 0])
        return tf.nn.relu(tf.concat([turned, turned[:, :1] + 1], 1))[..., ::-1] + tf.range(4.0)[:, None, None]

    return turned


def _layer_norm(tf: Any) -> Callable[..., Any]:
    def normalised(x: Any) -> Any:
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, 0.5, 2.0, 1e-3)

    return normalised


REDUCTIONS = Model(
    "reductions",
    [
        *(case for name in _NAMES for case in _reduced(name)),
        Case("norm", _OPEN, lambda tf: lambda x: tf.norm(x, axis=-1), _BOTH),
        Case("euclidean", _OPEN, lambda tf: lambda x: tf.math.reduce_euclidean_norm(x, axis=-1), _BOTH),
        Case("l2", {"x": f32(None, 4)}, lambda tf: lambda x: tf.math.l2_normalize(x, 1), [(ROWS[0],), (ROWS[0] * 0,)]),
        Case("softmax", _OPEN, lambda tf: tf.nn.softmax,
             [*_BOTH, (ROWS * 1e4,), (np.where(ROWS == 0.5, NAN, ROWS),)]),
        Case("softmax_middle", _OPEN, lambda tf: lambda x: tf.nn.softmax(x, 1), _BOTH),
        Case("softmax_rows", _OPEN, lambda tf: lambda x: tf.nn.softmax(x, 0), _BOTH),
        Case("log_softmax", _OPEN, lambda tf: lambda x: tf.nn.log_softmax(x, -2), [*_BOTH, (ROWS * 1e4,)]),
        Case("log_softmax_last", _OPEN, lambda tf: tf.nn.log_softmax, [*_BOTH, (ROWS * 1e4,)]),
        Case("softmax_turned", _OPEN, lambda tf: lambda x: tf.nn.softmax(tf.transpose(x, [0, 2, 1])), _BOTH),
        Case("top_turned", _OPEN, lambda tf: lambda x: tf.math.top_k(tf.transpose(x, [2, 0, 1]), 2)._asdict(), _BOTH),
        Case("mean_turned", _OPEN, lambda tf: lambda x: tf.reduce_mean(tf.transpose(x, [1, 0, 2]) * 2, 1), _BOTH),
        Case("concat_turned", _OPEN, _turned, _BOTH),
        Case("cumsum", _OPEN, lambda tf: lambda x: tf.cumsum(x, 1), _BOTH),
        Case("cumsum_exclusive", _OPEN, lambda tf: lambda x: tf.cumsum(x, 1, exclusive=True), _BOTH),
        Case("cumsum_reverse", _OPEN, lambda tf: lambda x: tf.cumsum(x, -1, reverse=True), _BOTH),
        Case("cumsum_both", _OPEN, lambda tf: lambda x: tf.cumsum(x, 0, exclusive=True, reverse=True), _BOTH),
        Case("cumprod", _OPEN, lambda tf: lambda x: tf.math.cumprod(x, 1, exclusive=True), _BOTH),
        Case("layer_norm", _OPEN, _layer_norm, _BOTH),
        Case("reduce_axis", {"x": f32(None, 3), "axis": i32()}, lambda tf: tf.reduce_sum,
             [(ROWS[:, 0, :3], 1), (ROWS[:, 0, :3], 5)]),
    ],
)  # fmt: skip


def _two_outputs(tf: Any) -> Callable[..., Any]:
    def twice(x: Any) -> dict[str, Any]:
        y = x * 2
        return {"a": y, "b": y}

    return twice


def _sizes(tf: Any) -> Callable[..., Any]:
    return lambda x: {"shape": tf.shape(x), "wide": tf.shape(x, tf.int64), "size": tf.size(x), "rank": tf.rank(x)}


def _as(rank: int) -> Array:
    return np.arange(2**rank, dtype=np.float32).reshape((2,) * rank)


LAYOUT = Model(
    "layout",
    [
        Case("unknown_rank", _ANY, lambda tf: lambda x: x * 2 + 1, [(1.5,), ([1, 2],), (ROWS,)]),
        Case("unknown_rank_to_known", _ANY, lambda tf: lambda x: tf.reshape(x, [-1]) * 2, [(1.5,), (ROWS,)]),
        Case("unknown_sizes", _ALL_OPEN, lambda tf: lambda x: x * 2 + 1,
             [(ROWS,), (NO_ROWS,), (ROWS[:, :, :0],), (_as(3),)]),
        Case("known_sizes", {"x": f32(2, 3, 4)}, lambda tf: lambda x: x * 2, [(ROWS,), (ROWS[:1],), (ROWS[0],)]),
        Case("scalar", {"x": f32()}, lambda tf: lambda x: x * 2, [(1.5,), ([1.5, 2],)]),
        Case("scalar_out", {"x": f32(None)}, lambda tf: tf.reduce_sum, [([1, 2],), ([],)]),
        Case("rank_6", {"x": f32(*[None] * 6)}, lambda tf: lambda x: tf.transpose(x * 2, [5, 0, 4, 1, 3, 2]),
             [(_as(6),)]),
        Case("rank_8", {"x": f32(*[None] * 8)}, lambda tf: lambda x: tf.reduce_sum(x, [1, 3]) + 1, [(_as(8),)]),
        Case("two_outputs", {"x": f32(None)}, _two_outputs, [([1, 2],)]),
        Case("through", {"x": f32(None), "z": f32(None)}, lambda tf: lambda x, z: {"x": x, "sum": x + z},
             [([1], [2]), ([-0.0], [1])]),
        Case("swapped", {"x": f32(None), "z": f32(None)}, lambda tf: lambda x, z: {"x": z, "z": x}, [([1], [2, 3])]),
        Case("constant", {"x": f32(None)}, lambda tf: lambda x: {"c": tf.constant([1.5, -0.0]), "y": x + 1},
             [([1],), ([],)]),
        Case("only_constant", {"x": f32(None)}, lambda tf: lambda x: tf.constant([[1.5], [2.5]]), [([1],)]),
        Case("not_used", {"x": f32(None), "z": f32(None)}, lambda tf: lambda x, z: x + 1, [([1], [2]), ([1], [2, 3])]),
        Case("no_inputs", {}, lambda tf: lambda: tf.constant([1.5]), [()]),
        Case("broadcast", {"x": f32(None, 1), "z": f32(1, None)}, lambda tf: lambda x, z: x + z,
             [([[1], [2]], [[3, 4]])]),
        Case("mismatched", {"x": f32(None), "z": f32(None)}, lambda tf: lambda x, z: x + z,
             [([1, 2], [1, 2, 3]), ([1, 2], [5])]),
        Case("mismatched_matmul", {"x": f32(None, None), "z": f32(None, None)}, lambda tf: tf.matmul,
             [([[1, 2]], [[1], [2]]), ([[1, 2]], [[1]]), (np.zeros((2, 0), np.float32), np.zeros((0, 2), np.float32))]),
        Case("mismatched_concat", {"x": f32(None, None), "z": f32(None, None)}, lambda tf: lambda x,
             z: tf.concat([x, z], 0),
             [([[1, 2]], [[3, 4]]), ([[1, 2]], [[1]])]),
        Case("reshape_wrong", {"x": f32(None)}, lambda tf: lambda x: tf.reshape(x, [-1, 3]),
             [([1, 2, 3],), ([1, 2],), ([],)]),
        Case("reshape_to", {"x": f32(None), "to": i32(None)}, lambda tf: tf.reshape,
             [([1, 2, 3, 4], [2, 2]), ([1, 2], [3]), ([1, 2], [-1, 1])]),
        Case("squeeze", {"x": f32(None, None)}, lambda tf: lambda x: tf.squeeze(x, 1), [([[1], [2]],), ([[1, 2]],)]),
        Case("squeeze_all", {"x": f32(None, None)}, lambda tf: tf.squeeze, [([[1], [2]],), ([[1]],)]),
        Case("slice", _ALL_OPEN, lambda tf: lambda x: x[:, ::-2, 1:-1], _BOTH),
        Case("slice_new", _ALL_OPEN, lambda tf: lambda x: x[..., None, 1], [(ROWS,), (ROWS[:, :, :1],)]),
        Case("slice_beyond", {"x": f32(None)}, lambda tf: lambda x: x[2:100], [([1, 2, 3],), ([1],)]),
        Case("slice_first", {"x": f32(None)}, lambda tf: lambda x: x[0] * 2, [([1, 2],), ([],)]),
        Case("slice_at", {"x": f32(None), "at": i32()}, lambda tf: lambda x, at: tf.slice(x, [at], [2]),
             [([1, 2, 3], 1), ([1, 2, 3], 2)]),
        Case("pad", {"x": f32(None, 3)}, lambda tf: lambda x: tf.pad(x, [[1, 0], [0, 2]], constant_values=NAN),
             [(ROWS[:, 0, :3],)]),
        Case("pad_reflect", {"x": f32(None, 3)}, lambda tf: lambda x: tf.pad(x, [[0, 0], [2, 1]], "REFLECT"),
             [(ROWS[:, 0, :3],)]),
        Case("pad_symmetric", {"x": f32(None, 3)}, lambda tf: lambda x: tf.pad(x, [[1, 0], [2, 3]], "SYMMETRIC"),
             [(ROWS[:, 0, :3],)]),
        Case("tile", {"x": f32(None, 3)}, lambda tf: lambda x: tf.tile(x, [2, 0]), [(ROWS[:, 0, :3],)]),
        Case("reverse", _ALL_OPEN, lambda tf: lambda x: tf.reverse(x, [0, -1]), _BOTH),
        Case("roll", _ALL_OPEN, lambda tf: lambda x: tf.roll(x, [1, -2], [1, 2]), _BOTH),
        Case("reverse_sequence", {"x": f32(None, None), "n": i32(None)},
             lambda tf: lambda x, n: tf.reverse_sequence(x, n, seq_axis=1),
             [(ROWS[0], [1, 4, 2]), (ROWS[0], [1, 9, 2])]),
        Case("stack", {"x": f32(None), "z": f32(None)}, lambda tf: lambda x, z: tf.stack([x, z], -1),
             [([1, 2], [3, 4]), ([1], [1, 2])]),
        Case("unstack", {"x": f32(None, 3)}, lambda tf: lambda x: dict(zip("abc", tf.unstack(x, axis=1), strict=True)),
             [(ROWS[:, 0, :3],)]),
        Case("split", {"x": f32(None, 4)}, lambda tf: lambda x: dict(zip("ab", tf.split(x, [3, 1], 1), strict=True)),
             [(ROWS[0],)]),
        Case("split_rows", {"x": f32(None, 4)}, lambda tf: lambda x: dict(zip("ab", tf.split(x, 2), strict=True)),
             [(ROWS[0, :2],), (ROWS[0],)]),
        Case("shape", _ALL_OPEN,
             _sizes,
             _BOTH),
        Case("fill", {"x": f32(None)}, lambda tf: lambda x: tf.fill([tf.size(x), 2], x[0]), [([3, 4],)]),
        Case("fill_to", {"n": i32()}, lambda tf: lambda n: tf.fill([n], 1.5), [(3,), (0,), (-1,)]),
        Case("broadcast_to", {"x": f32(None, 1)}, lambda tf: lambda x: tf.broadcast_to(x, [2, tf.shape(x)[0], 3]),
             [([[1], [2]],)]),
        Case("linspace", {"x": f32()}, lambda tf: lambda x: tf.linspace(0.0, x, 5), [(1.0,)]),
        Case("float_range", {"x": f32()}, lambda tf: lambda x: tf.range(0.0, x, 0.1), [(1.0,), (0.3,)]),
        Case("eye", {"n": i32()}, lambda tf: tf.eye, [(2,)]),
        Case("band", {"x": f32(None, None)}, lambda tf: lambda x: tf.linalg.band_part(x, 0, -1), [(ROWS[0],)]),
        Case("diag", {"x": f32(None)}, lambda tf: tf.linalg.diag, [([1, 2],)]),
        Case("diag_part", {"x": f32(None, None)}, lambda tf: tf.linalg.diag_part, [(ROWS[0],)]),
        Case("space_to_batch", {"x": f32(None, 4, 4, 1)},
             lambda tf: lambda x: tf.space_to_batch(x, [2, 2], [[0, 0], [2, 0]]),
             [(np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1),)]),
        Case("depth_to_space", {"x": f32(None, 2, 2, 4)}, lambda tf: lambda x: tf.nn.depth_to_space(x, 2),
             [(np.arange(16, dtype=np.float32).reshape(1, 2, 2, 4),)]),
        Case("space_to_depth", {"x": f32(None, 4, 4, 1)}, lambda tf: lambda x: tf.nn.space_to_depth(x, 2),
             [(np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1),)]),
        Case("booleans", {"x": flag(None), "z": flag(None)}, lambda tf: lambda x,
             z: {"and": x & z, "or": x | z, "not": ~x},
             [([True, False, True], [True, True, False])]),
        Case("bytes", {"x": u8(None)}, lambda tf: lambda x: tf.concat([x, x[::-1]], 0), [([0, 200, 255],)]),
        Case("bool_out", {"x": f32(None)}, lambda tf: lambda x: x > 0, [([1, -1, 0],)]),
        Case("meshgrid", {"x": f32(None), "z": f32(None)}, lambda tf: lambda x,
             z: dict(zip("ab", tf.meshgrid(x, z), strict=True)), [([1, 2], [3, 4, 5])]),
        Case("wrong_dtype", {"x": f32(None)}, lambda tf: lambda x: x * 2,
             [(np.array([1, 2], np.int32),), (np.array([1.0]),), (np.array([b"a"], object),)]),
    ],
)  # fmt: skip

MODELS = (REDUCTIONS, LAYOUT)
