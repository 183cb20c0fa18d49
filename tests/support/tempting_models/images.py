"""Convolutions, pools, resizing, matrices and boxes: padding at odd sizes and attributes that change the answer."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from support.tempting_models.cases import Array, Case, Make, Model, f32, text, u8

random = np.random.default_rng(20180113)


def _normal(*shape: int) -> Array:
    return random.standard_normal(shape).astype(np.float32)


IMAGE = {"x": f32(None, None, None, 3)}
FIXED = {"x": f32(None, 7, 9, 3)}
ODD = [(_normal(1, 7, 9, 3),), (_normal(2, 7, 9, 3),), (_normal(0, 7, 9, 3),)]
SIZES = [*ODD, (_normal(1, 8, 6, 3),), (_normal(1, 1, 1, 3),)]
KERNEL, DEEP = _normal(3, 3, 3, 4), _normal(3, 3, 3, 2)
EVEN = _normal(2, 4, 3, 4)
ONES, TURNED, CUBE = _normal(1, 1, 6, 5), _normal(3, 3, 4, 3), _normal(2, 3, 3, 2, 2)
WRONG = [(_normal(1, 7, 9, 2),), (_normal(7, 9, 3),)]


def _batch_norm(tf: Any) -> Callable[..., Any]:
    scale, offset, mean, variance = (tf.Variable(abs(_normal(3))) for _ in range(4))
    return lambda x: tf.compat.v1.nn.fused_batch_norm(x, scale, offset, mean, variance, 0.1, is_training=False)[0]


def _training_norm(tf: Any) -> Callable[..., Any]:
    return lambda x: tf.compat.v1.nn.fused_batch_norm(x, [1.0] * 3, [0.0] * 3, is_training=True)[0]


def _conv_variable(tf: Any) -> Callable[..., Any]:
    kernel, bias = tf.Variable(KERNEL), tf.Variable(_normal(4))
    return lambda x: tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, 2, "SAME"), bias))


def _convolved(padding: str, step: int, hole: int) -> Make:
    return lambda tf: lambda x: tf.nn.conv2d(x, KERNEL, step, padding, dilations=hole)


CONVOLUTIONS = Model(
    "convolutions",
    [
        *(
            Case(f"conv_{padding.lower()}_{step}_{hole}", IMAGE,
                 _convolved(padding, step, hole),
                 SIZES if padding == "SAME" else SIZES[:4])
            for padding in ("SAME", "VALID") for step, hole in ((1, 1), (2, 1), (3, 1), (1, 2))
        ),
        Case("conv_even", FIXED, lambda tf: lambda x: tf.nn.conv2d(x, EVEN, [1, 2, 3, 1], "SAME"), [*ODD, *WRONG]),
        Case("conv_explicit", FIXED, lambda tf: lambda x: tf.nn.conv2d(x, KERNEL, 2, [[0, 0], [0, 1], [2, 1], [0, 0]]),
             ODD),
        Case("conv_groups", {"x": f32(None, 5, 5, 4)}, lambda tf: lambda x: tf.nn.conv2d(x, EVEN[:, :, :2], 1, "SAME"),
             [(_normal(1, 5, 5, 4),)]),
        Case("conv_variable", FIXED, _conv_variable, ODD, not_eager=(2,)),
        Case("conv_channels_open", {"x": f32(None, None, None, None)},
             lambda tf: lambda x: tf.nn.conv2d(x, KERNEL, 1, "SAME"), [*SIZES, *WRONG]),
        Case("depthwise", FIXED, lambda tf: lambda x: tf.nn.depthwise_conv2d(x, DEEP, [1, 2, 2, 1], "SAME"), ODD),
        Case("depthwise_explicit", FIXED,
             lambda tf: lambda x: tf.nn.depthwise_conv2d(x, DEEP, [1, 1, 1, 1], [[0, 0], [0, 1], [2, 0], [0, 0]]), ODD),
        Case("depthwise_dilated", FIXED,
             lambda tf: lambda x: tf.nn.depthwise_conv2d(x, DEEP, [1, 1, 1, 1], "SAME", dilations=[2, 2]), ODD),
        Case("separable", FIXED, lambda tf: lambda x: tf.nn.separable_conv2d(x, DEEP, ONES, [1, 1, 1, 1], "VALID"),
             ODD),
        Case("transpose_same", FIXED,
             lambda tf: lambda x: tf.nn.conv2d_transpose(x, TURNED, [tf.shape(x)[0], 13, 18, 4], 2, "SAME"), ODD),
        Case("transpose_valid", FIXED,
             lambda tf: lambda x: tf.nn.conv2d_transpose(x, TURNED, [tf.shape(x)[0], 15, 19, 4], 2, "VALID"), ODD),
        Case("transpose_even", FIXED,
             lambda tf: lambda x: tf.nn.conv2d_transpose(x, TURNED, [tf.shape(x)[0], 14, 18, 4], 2, "SAME"), ODD),
        Case("conv_1d", {"x": f32(None, 7, 3)}, lambda tf: lambda x: tf.nn.conv1d(x, KERNEL[0], 2, "SAME"),
             [(_normal(2, 7, 3),)]),
        Case("conv_3d", {"x": f32(None, 3, 5, 4, 2)},
             lambda tf: lambda x: tf.nn.conv3d(x, CUBE, [1, 2, 2, 2, 1], "SAME"), [(_normal(1, 3, 5, 4, 2),)]),
        Case("batch_norm", FIXED, _batch_norm, ODD),
        Case("batch_norm_training", FIXED, _training_norm, ODD[:2]),
        Case("max_pool", FIXED, lambda tf: lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"),
             [*ODD, (np.full((1, 7, 9, 3), np.nan, np.float32),)]),
        Case("max_pool_even", FIXED, lambda tf: lambda x: tf.nn.max_pool2d(x, 2, 2, "SAME"), ODD),
        Case("max_pool_valid", FIXED, lambda tf: lambda x: tf.nn.max_pool2d(x, [2, 3], [2, 1], "VALID"), ODD),
        Case("max_pool_places", FIXED, lambda tf: lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "SAME")._asdict(), ODD),
        Case("avg_pool", FIXED, lambda tf: lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME"), ODD),
        Case("avg_pool_even", FIXED, lambda tf: lambda x: tf.nn.avg_pool2d(x, 4, 1, "SAME"), ODD),
        Case("avg_pool_valid", FIXED, lambda tf: lambda x: tf.nn.avg_pool2d(x, 3, 2, "VALID"), ODD),
        Case("pool_1d", {"x": f32(None, 7, 3)}, lambda tf: lambda x: tf.nn.max_pool1d(x, 3, 2, "SAME"),
             [(_normal(2, 7, 3),)]),
        Case("global_pool", IMAGE, lambda tf: lambda x: tf.reduce_mean(x, [1, 2]),
             [*SIZES, (np.zeros((1, 0, 4, 3), np.float32),)]),
        Case("normalise_local", FIXED, lambda tf: lambda x: tf.nn.local_response_normalization(x, 1, 2.0, 0.3, 0.6),
             ODD),
        Case("dilation", FIXED,
             lambda tf: lambda x: tf.nn.dilation2d(x, KERNEL[..., 0], [1] * 4, "SAME", "NHWC", [1] * 4), ODD),
        Case("patches", FIXED,
             lambda tf: lambda x: tf.image.extract_patches(x, [1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1], "SAME"), ODD),
    ],
)  # fmt: skip

_PIXELS = np.arange(1 * 5 * 7 * 3, dtype=np.uint8).reshape(1, 5, 7, 3)
_RESIZED = [(_normal(1, 5, 7, 3) * 100,), (_normal(2, 8, 8, 3),)]


def _resize(method: str, size: tuple[int, int], align: bool, half: bool) -> Make:
    kernel = f"Resize{method.title()}{'Neighbor' if method == 'nearest' else ''}"
    options = {"align_corners": align} | ({} if method == "area" else {"half_pixel_centers": half})
    return lambda tf: lambda x: getattr(tf.raw_ops, kernel)(images=x, size=size, **options)


def _resized(method: str) -> Make:
    return lambda tf: lambda x: tf.image.resize(x, [4, 9], method)


def _decoded(tf: Any) -> Callable[..., Any]:
    def decoded(x: Any) -> Any:
        return tf.map_fn(lambda item: tf.io.decode_jpeg(item, 3), x, fn_output_signature=tf.uint8)

    return decoded


def _jpeg() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(_PIXELS[0]).save(stream, "JPEG")
    return stream.getvalue()


_JPEG = _jpeg()


RESIZES = Model(
    "resizes",
    [
        *(
            Case(f"{method}_{name}_{size[0]}_{size[1]}", IMAGE, _resize(method, size, align, half), _RESIZED)
            for method in ("bilinear", "nearest", "bicubic")
            for name, align, half in (("plain", False, False), ("corners", True, False), ("centers", False, True))
            for size in ((3, 4), (11, 9), (10, 14), (1, 1))
        ),
        Case("area", IMAGE, _resize("area", (3, 4), align=False, half=False), _RESIZED),
        *(
            Case(f"{method}_uint8", {"x": u8(None, None, None, 3)}, _resized(method), [(_PIXELS,)])
            for method in ("bilinear", "nearest", "bicubic", "lanczos3")
        ),
        Case("antialias", IMAGE, lambda tf: lambda x: tf.image.resize(x, [3, 4], antialias=True), _RESIZED),
        Case("keep_aspect", IMAGE, lambda tf: lambda x: tf.image.resize_with_pad(x, 6, 6), _RESIZED, not_eager=(0,)),
        Case("crop_and_resize", {"x": f32(None, 5, 7, 3), "boxes": f32(None, 4)},
             lambda tf: lambda x, boxes: tf.image.crop_and_resize(x, boxes, 0 * tf.shape(boxes)[:1], [3, 3]),
             [(_normal(1, 5, 7, 3), [[0, 0, 1, 1], [0.5, 0.2, 0.1, 1.3]])]),
        Case("to_gray", IMAGE, lambda tf: tf.image.rgb_to_grayscale, _RESIZED),
        Case("to_hsv", IMAGE, lambda tf: lambda x: tf.image.rgb_to_hsv(abs(x)), _RESIZED),
        Case("contrast", IMAGE, lambda tf: lambda x: tf.image.adjust_contrast(x, 2.0), _RESIZED),
        Case("standardize", IMAGE, lambda tf: tf.image.per_image_standardization, _RESIZED),
        Case("scaled_uint8", {"x": u8(None, None, None, 3)},
             lambda tf: lambda x: tf.image.convert_image_dtype(x, tf.float32), [(_PIXELS,)]),
        Case("to_uint8", IMAGE, lambda tf: lambda x: tf.image.convert_image_dtype(x, tf.uint8),
             [(abs(_normal(1, 2, 2, 3)) / 4,)]),
        Case("decode", {"x": text()}, lambda tf: lambda x: tf.io.decode_jpeg(x, 3), [(_JPEG,), (b"no image",)]),
        Case("decode_all", {"x": text(None)}, _decoded, [([_JPEG, _JPEG],), ([_JPEG, b"no image"],)]),
    ],
)  # fmt: skip

_A, _B = _normal(2, 3, 4), _normal(2, 4, 5)


def _large(tf: Any) -> Callable[..., Any]:
    weights = tf.constant(np.random.default_rng(1).standard_normal((1000, 1000)).astype(np.float32))
    return lambda a: tf.matmul(a, weights)


def _quantized(tf: Any, a: Any) -> Any:
    whole, low, high = tf.quantization.quantize(a, -4.0, 4.0, tf.quint8)
    return tf.quantization.dequantize(whole, low, high)


MATRICES = Model(
    "matrices",
    [
        Case("plain", {"a": f32(None, 4)}, lambda tf: lambda a: tf.matmul(a, _B[0]),
             [(_A[0],), (_A[0, :0],), (_A[0] * 1e20,)]),
        Case("adjoint", {"a": f32(None, None, None), "b": f32(None, None, None)},
             lambda tf: lambda a, b: tf.matmul(a, b, adjoint_a=True, adjoint_b=True),
             [(_A.swapaxes(1, 2), _B.swapaxes(1, 2)), (_A, _B)]),
        Case("transposed", {"a": f32(4, None)}, lambda tf: lambda a: tf.matmul(a, _B[0], transpose_a=True),
             [(_A[0].T,)]),
        Case("broadcast", {"a": f32(None, 3, 4)}, lambda tf: lambda a: tf.matmul(a, _B[:1]), [(_A,), (_A[:0],)]),
        Case("einsum", {"a": f32(None, None, None)}, lambda tf: lambda a: tf.einsum("bij,bjk->bki", a, _B),
             [(_A,), (_A[:1],)]),
        Case("einsum_sum", {"a": f32(None, None, None)}, lambda tf: lambda a: tf.einsum("bij->j", a), [(_A,)]),
        Case("einsum_dots", {"a": f32(None, None, None)}, lambda tf: lambda a: tf.einsum("...ij,jk->...ik", a, _B[0]),
             [(_A,)]),
        Case("einsum_diagonal", {"a": f32(None, None)}, lambda tf: lambda a: tf.einsum("ii->i", a),
             [(_A[0, :, :3],), (_A[0],)]),
        Case("einsum_outer", {"a": f32(None), "b": f32(None)}, lambda tf: lambda a, b: tf.einsum("i,j->ij", a, b),
             [([1, 2], [3, 4, 5])]),
        Case("tensordot", {"a": f32(None, 3, 4)}, lambda tf: lambda a: tf.tensordot(a, _B[0], 1), [(_A,), (_A[:0],)]),
        Case("inverse", {"a": f32(None, None)}, lambda tf: tf.linalg.inv,
             [([[2, 1], [1, 3]],), ([[1, 1], [1, 1]],)]),
        Case("determinant", {"a": f32(None, None)}, lambda tf: tf.linalg.det, [([[2, 1], [1, 3]],)]),
        # TensorFlow fills the lower triangle with NaN where there is no decomposition, and leaves the upper one as
        # its memory was.
        Case("cholesky", {"a": f32(None, None)},
             lambda tf: lambda a: tf.linalg.band_part(tf.linalg.cholesky(a), -1, 0),
             [([[2, 1], [1, 3]],), ([[-1, 0], [0, 1]],)]),
        Case("attention", {"q": f32(None, 3, 4)},
             lambda tf: lambda q: tf.matmul(tf.nn.softmax(tf.matmul(q, q, transpose_b=True) * 0.5), q),
             [(_A,), (_A[:0],)]),
        Case("sparse", {"a": f32(None, 4)},
             lambda tf: lambda a: tf.sparse.sparse_dense_matmul(tf.sparse.from_dense(a), _B[0]), [(_A[0],)]),
        Case("large", {"a": f32(None, 1000)}, _large,
             [(_normal(2, 1000),), (np.ones((1, 1000), np.float32),)]),
        Case("quantized", {"a": f32(None, 4)}, lambda tf: lambda a: _quantized(tf, a), [(_A[0],)]),
    ],
)  # fmt: skip


_BOXES = np.array(
    [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 0, 1, 1], [5, 5, 6, 6], [1, 1, 0, 0], [5, 5.4, 6, 6.4]], np.float32
)
_SCORES = np.array([0.9, 0.9, 0.9, 0.3, 0.8, 0.3], np.float32)
_NMS = {"boxes": f32(None, 4), "scores": f32(None)}
_NMS_CALLS: list[tuple[Any, ...]] = [
    (_BOXES, _SCORES),
    (_BOXES[:0], _SCORES[:0]),
    (_BOXES, _SCORES * 0),
    (_BOXES, _SCORES[:3]),
    (_BOXES[:, [1, 0, 3, 2]], -_SCORES),
]


def _padded(tf: Any) -> Callable[..., Any]:
    def selected(boxes: Any, scores: Any) -> dict[str, Any]:
        indices, count = tf.image.non_max_suppression_padded(boxes, scores, 4, 0.5, pad_to_max_output_size=True)
        return {"indices": indices, "count": count}

    return selected


BOXES = Model(
    "boxes",
    [
        Case("v3", _NMS, lambda tf: lambda boxes, scores: tf.image.non_max_suppression(boxes, scores, 4, 0.5, 0.2),
             _NMS_CALLS),
        Case("v3_all", _NMS, lambda tf: lambda boxes, scores: tf.image.non_max_suppression(boxes, scores, 10, 0.9),
             _NMS_CALLS),
        Case("v3_strict", _NMS, lambda tf: lambda boxes, scores: tf.image.non_max_suppression(boxes, scores, 10, 0.0),
             _NMS_CALLS),
        Case("v4", _NMS, _padded, _NMS_CALLS),
        Case("v5", _NMS, lambda tf: lambda boxes, scores: dict(zip(("at", "scores"),
             tf.image.non_max_suppression_with_scores(boxes, scores, 4, 0.5, 0.1, 0.4), strict=True)), _NMS_CALLS),
        Case("v5_hard", _NMS, lambda tf: lambda boxes, scores: dict(zip(("at", "scores"),
             tf.image.non_max_suppression_with_scores(boxes, scores, 4, 0.5, 0.1, 0.0), strict=True)), _NMS_CALLS),
        Case("combined", {"boxes": f32(None, None, 1, 4), "scores": f32(None, None, 2)},
             lambda tf: lambda boxes, scores: tf.image.combined_non_max_suppression(boxes, scores, 2, 3, 0.5)._asdict(),
             [(_BOXES[None, :, None], np.stack([_SCORES, _SCORES[::-1]], -1)[None])]),
        Case("gathered", _NMS, lambda tf: lambda boxes,
             scores: tf.gather(boxes, tf.image.non_max_suppression(boxes, scores, 3)), _NMS_CALLS),
    ],
)  # fmt: skip

MODELS = (CONVOLUTIONS, RESIZES, MATRICES, BOXES)
