"""Integers: wide, narrow, unsigned; overflow, division, and conversions from and to floats."""

from __future__ import annotations

from support.tempting_models.cases import Case, Model, Spec, f32, flag, i32, i64, u8

WIDE = [2**31, 2**32 + 1, -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63), 7, -7]
HALVES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 8388609.0]
NONE = float("nan")

WIDTHS = Model(
    "integers_of_64_bits",
    [
        Case("pass", {"x": i64(None)}, lambda tf: tf.identity, [(WIDE,)]),
        Case("add", {"x": i64(None)}, lambda tf: lambda x: x + 1, [(WIDE,), ([1, 2],)]),
        Case("times", {"x": i64(None)}, lambda tf: lambda x: x * 3, [(WIDE,)]),
        Case("sum", {"x": i64(None)}, lambda tf: tf.reduce_sum, [([2**31 - 1, 1, 1],)]),
        Case("to_float", {"x": i64(None)}, lambda tf: lambda x: tf.cast(x, tf.float32), [(WIDE,)]),
        Case("to_int32", {"x": i64(None)}, lambda tf: lambda x: tf.cast(x, tf.int32), [(WIDE,)]),
        Case("from_int32", {"x": i32(None)}, lambda tf: lambda x: tf.cast(x, tf.int64) * 4, [([2**31 - 1, -5],)]),
        Case("equal", {"x": i64(None)}, lambda tf: lambda x: tf.equal(x, 1), [([1, 2**32 + 1, 2**33],)]),
        Case("less", {"x": i64(None)}, lambda tf: lambda x: x < 5, [(WIDE,)]),
        Case("top", {"x": i64(None)}, lambda tf: lambda x: tf.math.top_k(x, 2).values, [(WIDE,)]),
        Case("from_float", {"x": f32(None)}, lambda tf: lambda x: tf.cast(x, tf.int64), [([3e9, -3e9, 1.5],)]),
        Case(
            "constant",
            {"x": f32(None)},
            lambda tf: lambda x: {"wide": tf.constant(2**40, tf.int64), "x": x},
            [([1],)],
        ),
        Case(
            "select",
            {"take": flag(None)},
            lambda tf: lambda take: tf.where(take, tf.constant(2**40, tf.int64), tf.constant(5, tf.int64)),
            [([True, False],)],
        ),
        Case("one_hot", {"x": i64(None)}, lambda tf: lambda x: tf.one_hot(x, 3), [([0, 2, 3, -1, 2**32],)]),
        Case(
            "unsigned",
            {"x": Spec("uint64", (None,))},
            lambda tf: lambda x: x + tf.constant(1, tf.uint64),
            [([2**63, 2**64 - 2, 3, 2**32],)],
        ),
        Case(
            "unsigned_32",
            {"x": Spec("uint32", (None,))},
            lambda tf: lambda x: x + tf.constant(1, tf.uint32),
            [([2**31, 2**32 - 1, 3],)],
        ),
    ],
)

NARROW = Model(
    "integers_of_8_and_16_bits",
    [
        Case("pass_uint8", {"x": u8(None)}, lambda tf: tf.identity, [([0, 127, 128, 255],)]),
        Case("add_uint8", {"x": u8(None)}, lambda tf: lambda x: x + tf.constant(1, tf.uint8), [([1, 255],)]),
        Case("sub_uint8", {"x": u8(None)}, lambda tf: lambda x: x - tf.constant(2, tf.uint8), [([1, 255],)]),
        Case("times_uint8", {"x": u8(None)}, lambda tf: lambda x: x * x, [([1, 16, 255],)]),
        Case("max_uint8", {"x": u8(None, 2)}, lambda tf: lambda x: tf.reduce_max(x, 1), [([[1, 255], [3, 4]],)]),
        Case("mean_uint8", {"x": u8(None)}, lambda tf: tf.reduce_mean, [([255, 255, 254],)]),
        Case("to_float_uint8", {"x": u8(None)}, lambda tf: lambda x: tf.cast(x, tf.float32) / 255, [([0, 128, 255],)]),
        Case("to_int8_uint8", {"x": u8(None)}, lambda tf: lambda x: tf.cast(x, tf.int8), [([0, 127, 128, 255],)]),
        Case("less_uint8", {"x": u8(None)}, lambda tf: lambda x: x < 200, [([0, 199, 200, 255],)]),
        Case("pad_uint8", {"x": u8(None)}, lambda tf: lambda x: tf.pad(x, [[1, 2]]), [([5, 255],)]),
        Case(
            "add_int8",
            {"x": Spec("int8", (None,))},
            lambda tf: lambda x: x + tf.constant(1, tf.int8),
            [([127, -128],)],
        ),
        Case("abs_int8", {"x": Spec("int8", (None,))}, lambda tf: tf.abs, [([127, -128, -1],)]),
        Case("times_int16", {"x": Spec("int16", (None,))}, lambda tf: lambda x: x * x, [([300, 182, -5],)]),
        Case(
            "add_uint16",
            {"x": Spec("uint16", (None,))},
            lambda tf: lambda x: x + tf.constant(1, tf.uint16),
            [([65535, 3],)],
        ),
        Case("bits_uint8", {"x": u8(None)}, lambda tf: lambda x: tf.bitwise.bitwise_and(x, 6), [([255, 1],)]),
    ],
)

_PAIRS = [([7, -7, 7, -7, 0], [3, 3, -3, -3, 5])]
_BY_ZERO = [([7, -7], [3, 0])]

ARITHMETIC = Model(
    "integer_arithmetic",
    [
        Case("add", {"x": i32(None)}, lambda tf: lambda x: x + 1, [([1, 2**31 - 1, -(2**31)],)]),
        Case("times", {"x": i32(None)}, lambda tf: lambda x: x * 65537, [([1, 65536, -65536],)]),
        Case("times_of_large", {"x": i32(None)}, lambda tf: lambda x: x * 3 + 1, [([16777217, 33554433, -16777219],)]),
        Case("sum", {"x": i32(None)}, lambda tf: tf.reduce_sum, [([2**24, 1, 1, 1],), ([2**30] * 4,)]),
        Case("mean", {"x": i32(None)}, lambda tf: tf.reduce_mean, [([1, 2, 4],), ([-1, -2, -4],)]),
        Case("prod", {"x": i32(None)}, lambda tf: tf.reduce_prod, [([65537, 3, 5],)]),
        Case("max", {"x": i32(None)}, lambda tf: tf.reduce_max, [([16777217, 16777216],)]),
        Case("equal", {"x": i32(None)}, lambda tf: lambda x: tf.equal(x, 16777217), [([16777216, 16777217],)]),
        Case("abs", {"x": i32(None)}, lambda tf: tf.abs, [([-5, -(2**31)],)]),
        Case("negative", {"x": i32(None)}, lambda tf: lambda x: -x, [([-5, -(2**31)],)]),
        Case("square", {"x": i32(None)}, lambda tf: tf.square, [([5, 4097, 46341],)]),
        Case("power", {"x": i32(None)}, lambda tf: lambda x: tf.pow(x, 3), [([5, -3, 301],)]),
        Case("power_negative", {"x": i32(None)}, lambda tf: lambda x: tf.pow(2, x), [([3, 0],), ([-1],)]),
        Case("sign", {"x": i32(None)}, lambda tf: tf.sign, [([5, -5, 0],)]),
        Case("floordiv", {"x": i32(None), "by": i32(None)}, lambda tf: tf.math.floordiv, _PAIRS + _BY_ZERO),
        Case("floormod", {"x": i32(None), "by": i32(None)}, lambda tf: tf.math.floormod, _PAIRS + _BY_ZERO),
        Case("truncatediv", {"x": i32(None), "by": i32(None)}, lambda tf: tf.truncatediv, _PAIRS + _BY_ZERO),
        Case("truncatemod", {"x": i32(None), "by": i32(None)}, lambda tf: tf.truncatemod, _PAIRS + _BY_ZERO),
        Case("div", {"x": i32(None), "by": i32(None)}, lambda tf: lambda x, by: tf.raw_ops.Div(x=x, y=by), _PAIRS),
        Case("maximum", {"x": i32(None)}, lambda tf: lambda x: tf.maximum(x, 16777217), [([16777216, 16777218],)]),
        Case("matmul", {"x": i32(None, 2)}, lambda tf: lambda x: tf.matmul(x, [[2**24], [1]]), [([[1, 1], [3, 5]],)]),
        Case("cumsum", {"x": i32(None)}, lambda tf: tf.cumsum, [([2**24, 1, 1],)]),
        Case("shift", {"x": i32(None)}, lambda tf: lambda x: tf.bitwise.left_shift(x, 3), [([1, -1, 2**29],)]),
        Case("range", {"n": i32()}, lambda tf: tf.range, [(4,), (0,)]),
        Case("range_steps", {"n": i32()}, lambda tf: lambda n: tf.range(10, 0, n), [(-3,), (0,)]),
        Case("bool_to_int", {"x": flag(None)}, lambda tf: lambda x: tf.cast(x, tf.int32) + 1, [([True, False],)]),
        Case("any", {"x": flag(None)}, lambda tf: lambda x: {"any": tf.reduce_any(x), "all": tf.reduce_all(x)},
             [([True, False],), ([],)]),
        Case("xor", {"x": flag(None)}, lambda tf: lambda x: tf.math.logical_xor(x, True), [([True, False],)]),
    ],
)  # fmt: skip

CASTS = Model(
    "casts",
    [
        Case("to_int32", {"x": f32(None)}, lambda tf: lambda x: tf.cast(x, tf.int32),
             [([1.9, -1.9, 0.5, -0.5],), ([3e9, -3e9, float("inf"), NONE],)]),
        Case("to_uint8", {"x": f32(None)}, lambda tf: lambda x: tf.cast(x, tf.uint8),
             [([1.9, 254.9],), ([-1, 256, 300],)]),
        Case("to_int8", {"x": f32(None)}, lambda tf: lambda x: tf.cast(x, tf.int8), [([1.9, -128.9],), ([128, 300],)]),
        Case("to_bool", {"x": f32(None)}, lambda tf: lambda x: tf.cast(x, tf.bool), [([0.0, -0.0, 0.3, NONE],)]),
        Case("saturate", {"x": f32(None)}, lambda tf: lambda x: tf.saturate_cast(x, tf.uint8), [([-5, 3.7, 300],)]),
        Case("to_bool_int", {"x": i32(None)}, lambda tf: lambda x: tf.cast(x, tf.bool), [([0, 256, -1],)]),
        Case("int_to_uint8", {"x": i32(None)}, lambda tf: lambda x: tf.cast(x, tf.uint8), [([0, 255, 256, -1],)]),
        Case("int_to_float", {"x": i32(None)}, lambda tf: lambda x: tf.cast(x, tf.float32),
             [([2**24 + 1, 2**31 - 1],)]),
        Case("bitcast", {"x": f32(None)}, lambda tf: lambda x: tf.bitcast(x, tf.int32), [([1.0, -0.0, NONE],)]),
        Case("round", {"x": f32(None)}, lambda tf: tf.round, [(HALVES,)]),
        Case("rint", {"x": f32(None)}, lambda tf: tf.math.rint, [(HALVES,)]),
        Case("floor", {"x": f32(None)}, lambda tf: tf.floor, [(HALVES,)]),
        Case("ceil", {"x": f32(None)}, lambda tf: tf.math.ceil, [(HALVES,)]),
        Case("quantize", {"x": f32(None)},
             lambda tf: lambda x: tf.quantization.fake_quant_with_min_max_args(x, -6, 6, 8),
             [(HALVES,), ([-7, 7, 0.0235, 0.0236],)]),
    ],
)  # fmt: skip

MODELS = (WIDTHS, NARROW, ARITHMETIC, CASTS)
