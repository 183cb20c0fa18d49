"""Writes an ONNX file of an image classifier: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.

By hand, so that a first model needs neither TensorFlow nor the package onnx.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightbox.model_runtime.wire.protobuf import delimited, varint

FLOAT, _UINT8 = 1, 2
"""Numbers of dtypes."""
_IR_VERSION, _OPSET = 8, 17
_NODE, _INITIALIZER, _INPUT, _OUTPUT = 1, 5, 11, 12
_INT, _STRING, _INTS = 2, 3, 7
"""Types of attributes."""


class OnnxGraph:
    """A graph of one input and one output. Values are names; images are [N, C, H, W] behind the input."""

    def __init__(self, name: str, row: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.input = name
        self._count = 0
        described = _value(name, _UINT8 if dtype == np.uint8 else FLOAT, row)
        self._graph = [delimited(2, b"classifier"), delimited(_INPUT, described)]
        self._limits = [self.constant(np.float32(limit)) for limit in (0, 6)]

    def constant(self, values: NDArray[Any] | np.float32) -> str:
        """Add a constant of float32 and return its name."""
        array, name = np.asarray(values, "<f4"), self._new_name()
        shape = b"".join(_number(1, size) for size in array.shape)
        tensor = shape + _number(2, FLOAT) + delimited(8, name.encode()) + delimited(9, array.tobytes())
        self._graph.append(delimited(_INITIALIZER, tensor))
        return name

    def node(self, operation: str, *inputs: str, **attributes: str | int | list[int]) -> str:
        """Add an operation and return the name of its output."""
        output = self._new_name()
        fields = [delimited(1, name.encode()) for name in inputs]
        fields += [delimited(2, output.encode()), delimited(3, output.encode()), delimited(4, operation.encode())]
        fields += [delimited(5, _attribute(name, value)) for name, value in attributes.items()]
        self._graph.append(delimited(_NODE, b"".join(fields)))
        return output

    def convolution(
        self, values: str, kernel: NDArray[Any], bias: NDArray[Any], strides: int, is_depthwise: bool, relu6: bool
    ) -> str:
        """Convolve, with padding as TensorFlow's "same"."""
        names = self.constant(kernel), self.constant(bias)
        group, size = len(kernel) if is_depthwise else 1, [*kernel.shape[2:]]
        options: dict[str, Any] = {"kernel_shape": size, "strides": [strides, strides], "group": group}
        found = self.node("Conv", values, *names, auto_pad="SAME_UPPER", **options)
        return self.node("Clip", found, *self._limits) if relu6 else found

    def add(self, values: str, others: str) -> str:
        """Return the sum."""
        return self.node("Add", values, others)

    def classes(self, values: str, kernel: NDArray[Any], bias: NDArray[Any]) -> str:
        """Average over the image and return a probability for each class."""
        flat = self.node("Flatten", self.node("GlobalAveragePool", values))
        scores = self.node("Gemm", flat, self.constant(kernel), self.constant(bias), transB=1)
        return self.node("Softmax", scores, axis=1)

    def file(self, name: str, values: str, classes: int, notes: Mapping[str, str]) -> bytes:
        """Return the file. Its output has a name of its own and a value for each class."""
        last = delimited(1, values.encode()) + delimited(2, name.encode()) + delimited(4, b"Identity")
        graph = [*self._graph, delimited(_NODE, last), delimited(_OUTPUT, _value(name, FLOAT, (classes,)))]
        entries = (delimited(1, key.encode()) + delimited(2, value.encode()) for key, value in notes.items())
        fields = [_number(1, _IR_VERSION), delimited(2, b"lightbox"), delimited(7, b"".join(graph))]
        return b"".join([*fields, delimited(8, _number(2, _OPSET)), *(delimited(14, entry) for entry in entries)])

    def _new_name(self) -> str:
        self._count += 1
        return f"v{self._count}"


def _number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def _attribute(name: str, value: str | int | list[int]) -> bytes:
    if isinstance(value, str):
        kind, content = _STRING, delimited(4, value.encode())
    elif isinstance(value, int):
        kind, content = _INT, _number(3, value)
    else:
        kind, content = _INTS, b"".join(_number(8, one) for one in value)
    return delimited(1, name.encode()) + content + _number(20, kind)


def _value(name: str, dtype: int, row: tuple[int, ...]) -> bytes:
    """Describe an input or output of any number of rows."""
    sizes = [delimited(2, b"N"), *(_number(1, size) for size in row)]
    shape = b"".join(delimited(1, size) for size in sizes)
    tensor = _number(1, dtype) + delimited(2, shape)
    return delimited(1, name.encode()) + delimited(2, delimited(1, tensor))
