"""Floats: NaN, infinity, signed zero, values at the ends, other precisions, and functions with attributes."""

from __future__ import annotations

from support.tempting_models.cases import Case, Model, Spec, f32, named

NAN, INF = float("nan"), float("inf")
ODD = [NAN, INF, -INF, 0.0, -0.0, 1.5, -1.5, 1e-40]
PLAIN = [-3.0, -1.0, -0.1, 0.1, 0.5, 1.0, 3.0, 20.0]
LARGE = [-1000.0, -100.0, -88.0, 88.0, 100.0, 1000.0, 3e38, -3e38]
THREE = [(PLAIN,), (LARGE,), (ODD,)]
POSITIVE = [([0.1, 0.5, 1.0, 3.0, 20.0, 3e38],), ([0.0, -1.0, -0.0],), (ODD,)]

_NAMES = (
    "abs acos asin asinh atan acosh atanh cos cosh sin sinh tan tanh sigmoid exp expm1 log1p floor sign square erf "
    "erfc lgamma negative softplus digamma is_nan is_inf is_finite"
)

UNARY = Model(
    "float_functions",
    [
        *(Case(name, {"x": f32(None)}, named(f"math.{name}"), THREE) for name in _NAMES.split()),
        *(
            Case(name, {"x": f32(None)}, named(f"math.{name}"), POSITIVE)
            for name in ("log", "sqrt", "rsqrt", "reciprocal")
        ),
        *(
            Case(name, {"x": f32(None)}, named(f"nn.{name}"), THREE)
            for name in ("relu", "relu6", "elu", "selu", "softsign", "silu", "leaky_relu")
        ),
        Case("leaky_0", {"x": f32(None)}, lambda tf: lambda x: tf.nn.leaky_relu(x, 0.0), THREE),
        Case("leaky_3", {"x": f32(None)}, lambda tf: lambda x: tf.nn.leaky_relu(x, 3.0), THREE),
        Case("leaky_negative", {"x": f32(None)}, lambda tf: lambda x: tf.nn.leaky_relu(x, -0.5), THREE),
        Case("gelu", {"x": f32(None)}, lambda tf: tf.nn.gelu, THREE),
        Case("gelu_approximate", {"x": f32(None)}, lambda tf: lambda x: tf.nn.gelu(x, approximate=True), THREE),
        Case("xlogy", {"x": f32(None)}, lambda tf: lambda x: tf.math.xlogy(x, x), POSITIVE),
        Case("clip", {"x": f32(None)}, lambda tf: lambda x: tf.clip_by_value(x, -1, 2), THREE),
        Case("stop", {"x": f32(None)}, lambda tf: tf.stop_gradient, THREE),
        Case("mish", {"x": f32(None)}, lambda tf: lambda x: x * tf.tanh(tf.math.softplus(x)), THREE),
        Case("hard_sigmoid", {"x": f32(None)}, lambda tf: lambda x: tf.nn.relu6(x + 3) / 6, THREE),
        Case("check_numerics", {"x": f32(None)}, lambda tf: lambda x: tf.debugging.check_numerics(x, "bad"), THREE),
    ],
)

_LEFT = [NAN, 1.0, NAN, -0.0, 0.0, INF, -INF, 2.0, -7.5, 7.5, 7.0, 0.0]
_RIGHT = [1.0, NAN, NAN, 0.0, -0.0, INF, INF, 2.0, 2.0, -2.0, 0.0, 0.0]
_PLAIN_LEFT = [5.5, -5.5, 5.5, -5.5, 1.0, 0.0, 2.0, 1e30]
_PLAIN_RIGHT = [2.0, 2.0, -2.0, -2.0, 3.0, 3.0, 0.5, 1e-3]
_TWO = {"x": f32(None), "by": f32(None)}
_BOTH = [(_PLAIN_LEFT, _PLAIN_RIGHT), (_LEFT, _RIGHT)]

BINARY = Model(
    "float_pairs",
    [
        *(
            Case(name, _TWO, named(f"math.{name}"), _BOTH)
            for name in (
                *("add", "subtract", "multiply", "divide", "divide_no_nan", "multiply_no_nan", "maximum", "minimum"),
                *("floordiv", "floormod", "pow", "atan2", "squared_difference", "equal", "not_equal", "less"),
                *("less_equal", "greater", "greater_equal"),
            )
        ),
        Case("truncatemod", _TWO, lambda tf: tf.truncatemod, _BOTH),
        Case("add_n", _TWO, lambda tf: lambda x, by: tf.add_n([x, by, x]), _BOTH),
        Case("select", _TWO, lambda tf: lambda x, by: tf.where(x < by, x, by), _BOTH),
        Case("approximately", _TWO, lambda tf: lambda x, by: tf.raw_ops.ApproximateEqual(x=x, y=by), _BOTH),
    ],
)

ZEROS = [(([0.0, 1.0, -1.0, 4.0]),)]

HIDDEN = Model(
    "nan_inside",
    # The caller sends finite numbers and may be answered finite numbers: NaN appears on the way only.
    [
        Case("relu", {"x": f32(None)}, lambda tf: lambda x: tf.nn.relu(x / x), ZEROS),
        Case("relu6", {"x": f32(None)}, lambda tf: lambda x: tf.nn.relu6(tf.math.log(x)), ZEROS),
        Case("maximum", {"x": f32(None)}, lambda tf: lambda x: tf.maximum(tf.math.log(x), -10.0), ZEROS),
        Case("maximum_left", {"x": f32(None)}, lambda tf: lambda x: tf.maximum(-10.0, tf.math.log(x)), ZEROS),
        Case("minimum", {"x": f32(None)}, lambda tf: lambda x: tf.minimum(tf.sqrt(x), 10.0), ZEROS),
        Case("clip", {"x": f32(None)}, lambda tf: lambda x: tf.clip_by_value(tf.sqrt(x), 0.0, 1.0), ZEROS),
        Case("argmax", {"x": f32(None)}, lambda tf: lambda x: tf.argmax(tf.math.log(x)), ZEROS),
        Case("argmin", {"x": f32(None)}, lambda tf: lambda x: tf.argmin(tf.math.log(x)), ZEROS, not_eager=(0,)),
        Case("top_k", {"x": f32(None)}, lambda tf: lambda x: tf.math.top_k(tf.math.log(x), 3).indices, ZEROS),
        Case("reduce_max", {"x": f32(None)}, lambda tf: lambda x: tf.reduce_max(tf.math.log(x)), ZEROS, not_eager=(0,)),
        Case("reduce_min", {"x": f32(None)}, lambda tf: lambda x: tf.reduce_min(tf.sqrt(x)), ZEROS),
        Case("max_pool", {"x": f32(4)},
             lambda tf: lambda x: tf.nn.max_pool2d(tf.reshape(tf.sqrt(x), [1, 2, 2, 1]), 2, 2, "VALID"), ZEROS),
        Case("less", {"x": f32(None)}, lambda tf: lambda x: tf.math.log(x) < 0.5, ZEROS),
        Case("equal", {"x": f32(None)}, lambda tf: lambda x: tf.equal(x / x, x / x), ZEROS),
        Case("not_equal", {"x": f32(None)}, lambda tf: lambda x: tf.not_equal(x / x, x / x), ZEROS),
        Case("select", {"x": f32(None)}, lambda tf: lambda x: tf.where(tf.math.log(x) >= 0, x, 7.0), ZEROS),
        Case("is_nan", {"x": f32(None)}, lambda tf: lambda x: tf.where(tf.math.is_nan(x / x), 5.0, x), ZEROS),
        Case("times_zero", {"x": f32(None)}, lambda tf: lambda x: (x / x) * 0.0, ZEROS),
        Case("power_zero", {"x": f32(None)}, lambda tf: lambda x: tf.pow(x / x, 0.0), ZEROS),
        Case("inverse", {"x": f32(None)}, lambda tf: lambda x: 1.0 / (x * -1.0), ZEROS),
        Case("inverse_zero", {"x": f32(None)}, lambda tf: lambda x: 1.0 / (1.0 / (tf.nn.relu(x) * -1.0)), ZEROS),
        Case("overflow", {"x": f32(None)}, lambda tf: lambda x: 1.0 / (x * 1e38 * 1e5), ZEROS, not_eager=(0,)),
        Case("softmax", {"x": f32(None)}, lambda tf: lambda x: tf.nn.relu(tf.nn.softmax(tf.math.log(x))), ZEROS),
        Case("to_int", {"x": f32(None)}, lambda tf: lambda x: tf.cast(tf.math.log(x), tf.int32), ZEROS),
        Case("mean", {"x": f32(None)}, lambda tf: lambda x: tf.nn.relu(tf.reduce_mean(x[:0])), ZEROS),
    ],
)  # fmt: skip

SIGNED = Model(
    "signed_zero_and_tiny",
    [
        Case("pass", {"x": f32(None)}, lambda tf: lambda x: x, [([-0.0, 0.0, 1e-40, -1e-45],)]),
        Case("identity", {"x": f32(None)}, lambda tf: tf.identity, [([-0.0, 0.0, 1e-40],)]),
        Case("add_zero", {"x": f32(None)}, lambda tf: lambda x: x + 0.0, [([-0.0, 0.0, 1e-40],)]),
        Case("times_one", {"x": f32(None)}, lambda tf: lambda x: x * 1.0, [([-0.0, 0.0, 1e-40],)]),
        Case("times_minus", {"x": f32(None)}, lambda tf: lambda x: x * -2.0, [([-0.0, 0.0, 1.0],)]),
        Case("tiny", {"x": f32(None)}, lambda tf: lambda x: x * 1e-30 * 1e20, [([1e-10, 1e-8],)]),
        Case("tiny_product", {"x": f32(None)}, lambda tf: lambda x: x * 1e-30, [([1e-10, 3e-12],)]),
        Case("relu", {"x": f32(None)}, lambda tf: tf.nn.relu, [([-0.0, 0.0, -1.0],)]),
        Case("reshape", {"x": f32(None)}, lambda tf: lambda x: tf.reshape(x, [-1, 1]), [([-0.0, 0.0],)]),
        Case("concat", {"x": f32(None)}, lambda tf: lambda x: tf.concat([x, x], 0), [([-0.0, 0.0],)]),
        Case("ceil", {"x": f32(None)}, lambda tf: tf.math.ceil, [([-0.5, 0.0],)]),
        Case("round", {"x": f32(None)}, lambda tf: tf.round, [([-0.5, 0.4],)]),
        Case("maximum", {"x": f32(None)}, lambda tf: lambda x: tf.maximum(x, 0.0), [([-0.0, 0.0],)]),
        Case("conv", {"x": f32(None, 2, 2, 1)}, lambda tf: lambda x: tf.nn.conv2d(x, -tf.ones([1, 1, 1, 1]), 1, "SAME"),
             [([[[[0.0], [-0.0]], [[1.0], [2.0]]]],)]),
        Case("matmul", {"x": f32(None, 1)}, lambda tf: lambda x: tf.matmul(x, [[-1.0]]), [([[0.0], [-0.0], [1.0]],)]),
        Case("sum_cancels", {"x": f32(None)}, lambda tf: tf.reduce_sum, [([1e8, 1.0, -1e8],)]),
        Case("negative", {"x": f32(None)}, lambda tf: lambda x: -x, [([-0.0, 0.0],)]),
        Case("ratio_of_sums", {"x": f32(None)}, lambda tf: lambda x: x / tf.reduce_sum(x), [([1, 3],), ([1, -1],)]),
        Case("subtract_from", {"x": f32(None)}, lambda tf: lambda x: 0.0 - x, [([-0.0, 0.0, 1.0],)]),
    ],
)  # fmt: skip

_PI = 3.141592653589793


def _of(dtype: str) -> dict[str, Spec]:
    return {"x": Spec(dtype, (None,))}


PRECISIONS = Model(
    "precisions",
    [
        Case("double", _of("float64"), lambda tf: lambda x: x + 1e-12, [([1.0, _PI, 1e300, 1 / 3],)]),
        Case("double_inside", {"x": f32(None)},
             lambda tf: lambda x: tf.cast((tf.cast(x, tf.float64) + 1e-9 - 1.0) * 1e9, tf.float32),
             [([1.0],), ([2.0],)]),
        Case("double_constant", {"x": f32(None)}, lambda tf: lambda x: {"pi": tf.constant(_PI, tf.float64), "x": x},
             [([1.0],)]),
        Case("double_to_float", _of("float64"), lambda tf: lambda x: tf.cast(x, tf.float32), [([_PI, 1e300],)]),
        Case("half", _of("float16"), lambda tf: lambda x: x * 3 + 1, [([0.1, 1.5, 60000.0],)]),
        Case("half_inside", {"x": f32(None)}, lambda tf: lambda x: tf.cast(tf.cast(x, tf.float16) + 1, tf.float32),
             [([0.1],), ([2049.0, 70000.0],)]),
        Case("bfloat16", _of("bfloat16"), lambda tf: lambda x: x * 3 + 1, [([0.1, 1.5, 3e38],)]),
        Case("bfloat16_inside", {"x": f32(None)}, lambda tf: lambda x: tf.cast(tf.cast(x, tf.bfloat16), tf.float32) + 1,
             [([0.1],), ([257.0],)]),
        Case("complex64", _of("complex64"), lambda tf: lambda x: x * x, [([1 + 2j, -1j],)]),
        Case("complex128", _of("complex128"), lambda tf: tf.math.conj, [([1 + 2j],)]),
        Case("complex_inside", {"x": f32(None)}, lambda tf: lambda x: tf.abs(tf.complex(x, x)), [([3.0, -4.0],)]),
        Case("fft", {"x": f32(None, 8)}, lambda tf: lambda x: tf.abs(tf.signal.rfft(x)),
             [([[1, 2, 3, 4, 0, 0, -1, 5]],)]),
    ],
)  # fmt: skip

MODELS = (UNARY, BINARY, HIDDEN, SIGNED, PRECISIONS)
