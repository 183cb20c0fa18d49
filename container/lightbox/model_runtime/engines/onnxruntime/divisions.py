"""Divisions of integers: ONNX Runtime ends the process when it divides the smallest one by -1.

So a file is changed as it is loaded: where a divisor is -1, both numbers are negated first. Then the smallest integer
stays as it is. A file rarely says the type of a division. It is derived from operations whose types ONNX defines. A
division of an unknown type is changed as well, as the change gives the same results for all types.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic

import numpy as np

from lightbox.model_runtime.deadline import check_deadline, deadline
from lightbox.model_runtime.wire.protobuf import (
    LENGTH_DELIMITED,
    VARINT,
    Fragments,
    delimited,
    read_fields,
    read_varint,
    varint,
    wrapped,
)

_OPSET, _GRAPH, _FUNCTION = 8, 7, 25
_NODE, _INITIALIZER, _INPUT, _OUTPUT, _VALUE_INFO = 1, 5, 11, 12, 13
_FUNCTION_OPSET, _FUNCTION_NODE = 9, 7
_TAKES, _GIVES, _OPERATION, _ATTRIBUTE, _DOMAIN = 1, 2, 4, 5, 7
_ATTRIBUTE_NAME, _NUMBER, _TENSOR, _BODY, _BODIES = 1, 3, 5, 6, 11
_VALUE_NAME, _VALUE_TYPE, _TENSOR_TYPE, _ELEMENT = 1, 2, 1, 1
_DATA_TYPE, _INTS, _LONGS, _TENSOR_NAME, _RAW, _OUTSIDE = 2, 5, 7, 8, 9, 13
_UNKNOWN, _FLOAT, _INT32, _INT64 = 0, 1, 6, 7
_DTYPES: Mapping[int, type[np.signedinteger]] = {_INT32: np.int32, _INT64: np.int64}
_OWN_DOMAINS, _WITHOUT_BODIES = ("", "ai.onnx"), "ai.onnx.ml"
"""Of the latter are forests of trees, with millions of numbers."""
_LEAST_OPSET = 9
"""The first one with the operations of the change."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_GIVE_FLOATS = _names("""
    Acos Acosh AffineGrid Asin Asinh Atan Atanh Attention AveragePool BatchNormalization CausalConvWithState Ceil
    Celu Conv ConvTranspose Cos Cosh DeformConv DequantizeLinear Det DFT Elu Exp Floor Gelu GlobalAveragePool
    GlobalLpPool GlobalMaxPool GroupNormalization GRU Hardmax HardSigmoid HardSwish InstanceNormalization
    LayerNormalization LeakyRelu LinearAttention Log LogSoftmax LpNormalization LpPool LRN LSTM MaxRoiPool MaxUnpool
    Mean MeanVarianceNormalization Mish NegativeLogLikelihoodLoss RandomNormal RandomNormalLike RandomUniform
    RandomUniformLike Reciprocal RMSNormalization RNN RoiAlign RotaryEmbedding Round Selu Sigmoid Sin Sinh Softmax
    SoftmaxCrossEntropyLoss Softplus Softsign Sqrt STFT Sum SwiGLU Swish Tan Tanh TfIdfVectorizer ThresholdedRelu
""")
_GIVE_INT64 = _names("ArgMax ArgMin NonMaxSuppression NonZero Shape Size")
_LIKE_FIRST = _names("""
    Abs Clip Compress CumSum DepthToSpace Dropout Erf Expand Flatten Gather GatherElements GatherND GridSample
    Identity MaxPool Neg Pad Pow ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize ScatterElements ScatterND Sign Slice SpaceToDepth
    Squeeze Tile TopK Transpose Trilu Unsqueeze Upsample
""")
"""Operations whose first result has the type of the first input."""
_LIKE_ANY = _names("Add Concat Div Einsum Gemm MatMul Max Min Mod Mul PRelu Range Sub")
"""Operations whose inputs and result have one type."""
_BODY_OF = {"If": ("then_branch", 0), "Loop": ("body", 1), "Scan": ("body", 0)}
"""The attribute with a body, and how many of the body's first outputs are none of the operation's."""

_MOST_SECONDS = 60.0
_MOST_FIELDS = 1_000_000
"""Fields of a message; most are a graph's nodes and weights."""
_MOST_PARTS = 256
"""Parts of a split whose types are noted."""

_Fields = list[tuple[int, int, memoryview]]


def guard_divisions(model: bytes) -> bytes | None:
    """Return the content of an ONNX file with changed divisions, None if none of them may end the process.

    Raises ValueError for a damaged file, for a division that cannot be changed, and after _MOST_SECONDS.
    """
    until = monotonic() + _MOST_SECONDS

    def check() -> None:
        if monotonic() > until:
            raise ValueError(f"its nodes were not read within {_MOST_SECONDS:g} s")

    with deadline(check):
        fields = _fields(model)
        changed = _rewritten(fields, {_GRAPH: _Scope(_opset(fields, _OPSET)).graph, _FUNCTION: _function})
    return changed[0] if changed else None


def _function(function: memoryview) -> list[bytes] | None:
    """Change a function, whose parameters have no types."""
    fields = _fields(function)
    return _rewritten(fields, {_FUNCTION_NODE: _Scope(_opset(fields, _FUNCTION_OPSET)).node})


@dataclass(frozen=True)
class _Scope:
    """The values that nodes of a graph see: those of graphs around it, and its own so far."""

    opset: int
    types: ChainMap[str, int] = field(default_factory=ChainMap)
    constants: ChainMap[str, memoryview | None] = field(default_factory=ChainMap)
    """Tensors."""

    def graph(self, graph: memoryview) -> list[bytes] | None:
        """Return a graph with changed divisions, None if there are none."""
        fields = _fields(graph)
        for number, _, value in fields:
            if number in (_INPUT, _OUTPUT, _VALUE_INFO):
                name, kind = _described(value)
                self.types[name], self.constants[name] = kind, None
        for number, _, tensor in fields:
            if number == _INITIALIZER:  # older files list them as inputs, too
                name = _text(_last(tensor, _TENSOR_NAME))
                self.types[name], self.constants[name] = _number(tensor, _DATA_TYPE), tensor
        return _rewritten(fields, {_NODE: self.node})

    def node(self, node: memoryview) -> list[bytes] | None:
        """Return what replaces a node, None if it stays. Notes the types of its results."""
        fields = _fields(node)
        takes, gives = ([_text(value) for number, _, value in fields if number == end] for end in (_TAKES, _GIVES))
        domain = _text(_last(node, _DOMAIN))
        operation = _text(_last(node, _OPERATION)) if domain in _OWN_DOMAINS else ""
        attributes = [value for number, _, value in fields if number == _ATTRIBUTE and domain != _WITHOUT_BODIES]
        named = {_text(_last(attribute, _ATTRIBUTE_NAME)): attribute for attribute in attributes}
        changed = _rewritten(fields, {_ATTRIBUTE: self._attribute} if attributes else {})
        known = self._types(operation, takes, named)
        for place, name in enumerate(gives):
            self.types[name] = self.types.maps[0].get(name) or (known[place] if place < len(known) else _UNKNOWN)
            self.constants[name] = (
                _last(named["value"], _TENSOR) if operation == "Constant" and "value" in named else None
            )
        if operation == "Div" and self._may_end_the_process(*takes, *gives):
            return self._guarded(fields, *takes, *gives)
        return changed

    def _attribute(self, attribute: memoryview) -> list[bytes] | None:
        def body(graph: memoryview) -> list[bytes] | None:
            return _Scope(self.opset, self.types.new_child(), self.constants.new_child()).graph(graph)

        return _rewritten(_fields(attribute), {_BODY: body, _BODIES: body})

    def _types(self, operation: str, takes: Sequence[str], attributes: Mapping[str, memoryview]) -> list[int]:
        """Return the types of an operation's first results, as far as they are known."""
        types = [self.types.get(name, _UNKNOWN) for name in takes]
        body, skipped = _BODY_OF.get(operation, ("", 0))
        result = list[int]()
        if operation in _GIVE_FLOATS:
            result = [_FLOAT]
        elif operation in _GIVE_INT64:
            result = [_INT64]
        elif operation in _LIKE_FIRST:
            result = types[:1]
        elif operation == "Split":
            result = types[:1] * _MOST_PARTS
        elif operation in _LIKE_ANY:
            result = [max(types, default=_UNKNOWN)]
        elif operation == "Where":
            result = [max(types[1:], default=_UNKNOWN)]
        elif operation == "Cast":
            result = [_number(attributes.get("to"), _NUMBER)]
        elif operation in ("Constant", "ConstantOfShape"):
            result = [_number(_last(attributes.get("value"), _TENSOR), _DATA_TYPE)]
        elif body in attributes:
            inside = _fields(_last(attributes[body], _BODY))
            result = [_described(value)[1] for number, _, value in inside if number == _OUTPUT][skipped:]
        return result

    def _may_end_the_process(self, dividend: str, divisor: str, quotient: str) -> bool:
        if self.types[quotient] not in (_UNKNOWN, _INT32, _INT64):
            return False
        by, of = (_values(self.constants.get(name)) for name in (divisor, dividend))
        if by is not None and not (by == -1).any():
            return False
        return of is None or bool((of == np.iinfo(of.dtype).min).any())

    def _guarded(self, fields: _Fields, dividend: str, divisor: str, quotient: str) -> list[bytes]:
        """Return the nodes of a division that negates both numbers where the divisor is -1, or between -1 and 0.

        They are right for floats as well. ONNX Runtime has no ``Where`` of int16, uint16 and uint64: it does not open a
        file where such a division has no known type.
        """
        if self.opset < _LEAST_OPSET:
            raise ValueError(
                f"{quotient!r} may be the smallest integer divided by -1, which ends the process of ONNX Runtime: "
                f"expected opset {_LEAST_OPSET} or later, got {self.opset}"
            )
        nodes = list[bytes]()

        def add(operation: str, *takes: str) -> str:
            gives = f"{quotient}: guard {len(nodes)}"
            parts = [*((_TAKES, name) for name in takes), (_GIVES, gives), (_OPERATION, operation)]
            nodes.append(b"".join(delimited(number, text.encode()) for number, text in parts))
            return gives

        size, sign = add("Abs", divisor), add("Sign", divisor)
        is_negative = add("Less", divisor, size)  # except for the smallest integer, which has no other size
        is_small = add("And", is_negative, add("Not", add("Less", divisor, sign)))
        by = add("Where", is_small, size, divisor)
        of = add("Where", is_small, add("Mul", dividend, sign), dividend)
        kept = [part for one in fields if one[0] != _TAKES for part in _written(*one)]
        return [*nodes, b"".join([delimited(_TAKES, of.encode()), delimited(_TAKES, by.encode()), *kept])]


def _values(tensor: memoryview | None) -> np.ndarray[tuple[int, ...], np.dtype[np.signedinteger]] | None:
    """Return the values of a tensor of int32 or int64 in its file, None for another one."""
    dtype = _DTYPES.get(_number(tensor, _DATA_TYPE))
    if dtype is None or _last(tensor, _OUTSIDE) is not None:
        return None
    if (raw := _last(tensor, _RAW)) is not None:
        return np.frombuffer(raw, np.dtype(dtype).newbyteorder("<")).astype(dtype)
    numbers = list[int]()
    for number, _, packed in _fields(tensor):
        at = 0
        while number in (_INTS, _LONGS) and at < len(packed):
            value, at = read_varint(packed, at)
            numbers.append(value)
    return np.array(numbers, np.uint64).astype(np.int64).astype(dtype)


def _rewritten(
    fields: _Fields, changes: Mapping[int, Callable[[memoryview], list[bytes] | None]]
) -> list[bytes] | None:
    """Return a message whose parts are replaced as ``changes`` say by number, None if all of them stay."""
    parts, is_changed = Fragments(), False
    for number, kind, value in fields:
        by = changes[number](value) if number in changes and kind == LENGTH_DELIMITED else None
        is_changed |= by is not None
        parts += _written(number, kind, value) if by is None else [delimited(number, one) for one in by]
    return [b"".join(parts)] if is_changed else None


def _written(number: int, kind: int, value: memoryview) -> Fragments:
    return wrapped(number, [value]) if kind == LENGTH_DELIMITED else [varint(number << 3 | kind), value]


def _fields(message: bytes | memoryview | None) -> _Fields:
    check_deadline()
    found = list(islice(read_fields(memoryview(message or b"")), _MOST_FIELDS))
    if len(found) == _MOST_FIELDS:
        raise ValueError(f"a part of it has {_MOST_FIELDS:,} fields or more")
    return found


def _last(message: memoryview | None, wanted: int) -> memoryview | None:
    found = [value for number, kind, value in _fields(message) if (number, kind) == (wanted, LENGTH_DELIMITED)]
    return found[-1] if found else None


def _number(message: memoryview | None, wanted: int) -> int:
    found = [value for number, kind, value in _fields(message) if (number, kind) == (wanted, VARINT)]
    return read_varint(found[-1], 0)[0] if found else _UNKNOWN


def _text(value: memoryview | None) -> str:
    return bytes(value or b"").decode()


def _described(value: memoryview) -> tuple[str, int]:
    """Return the name and the type of an input, an output or another value."""
    return _text(_last(value, _VALUE_NAME)), _number(_last(_last(value, _VALUE_TYPE), _TENSOR_TYPE), _ELEMENT)


def _opset(fields: _Fields, at: int) -> int:
    """Return the version of ONNX's own operations."""
    sets = [value for number, _, value in fields if number == at]
    return max((_number(one, 2) for one in sets if _text(_last(one, 1)) in _OWN_DOMAINS), default=1)
