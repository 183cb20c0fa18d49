"""The operations whose answers OpenVINO shares with TensorFlow, and for which values.

What is not listed is refused: OpenVINO computes 64-bit integers in 32 bits, double as float, saturates small
integers, keeps no state, and drops Assert and range checks, all without an error (docs/model_server.md). A
wrong reading of an attribute shows in the canary; these rules are about values that a canary may not meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from model_server.engines.facts import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    INTEGERS,
    RESOURCE,
    UINT8,
    Fact,
    Facts,
    Kind,
    Rule,
    attribute_type,
    hides_nan,
    kind_of,
    may_be_nan,
    need,
    need_kind,
    scalar,
    wrong,
)
from model_server.engines.graph import Node


def _arithmetic(node: Node, inputs: Sequence[Fact]) -> Facts:
    need(node, inputs, Kind.INDEX)
    kind = kind_of(inputs)
    # A count that was computed with may lie outside of what was counted.
    is_moved = inputs[0].dtype in INTEGERS and kind == Kind.INDEX and len(inputs) > 1
    return Fact(inputs[0].dtype, Kind.FREE if is_moved else kind, may_be_nan(inputs))


def _floats(node: Node, inputs: Sequence[Fact]) -> Fact:
    for fact in inputs:
        if fact.dtype != FLOAT:
            raise wrong(node, f"computes with {fact}")
    return Fact(FLOAT, kind_of(inputs), may_be_nan(inputs))


def _makes_nan(node: Node, inputs: Sequence[Fact]) -> Facts:
    """An operation that is not defined everywhere: of the caller's values the result may be NaN."""
    fact = _floats(node, inputs)
    return Fact(FLOAT, fact.kind, fact.may_be_nan or fact.kind == Kind.FREE)


def _quotient(node: Node, inputs: Sequence[Fact]) -> Facts:
    dividend, divisor = inputs
    fact = _floats(node, [dividend, divisor])
    return Fact(FLOAT, fact.kind, fact.may_be_nan or divisor.kind == Kind.FREE)


def _whole(node: Node, inputs: Sequence[Fact]) -> Facts:
    """Floor division: of floats its results differ."""
    for fact in inputs:
        if fact.dtype not in INTEGERS:
            raise wrong(node, f"computes with {fact}")
    return _arithmetic(node, inputs)


def _reduction(node: Node, inputs: Sequence[Fact]) -> Facts:
    values, axes = inputs
    need(node, [values], Kind.FIXED)
    need_kind(node, axes, Kind.FIXED, "axes")
    return Fact(values.dtype, values.kind, values.may_be_nan)


def _comparison(node: Node, inputs: Sequence[Fact]) -> Facts:
    need(node, inputs, Kind.INDEX)
    return Fact(BOOL, kind_of(inputs))


def _logic(node: Node, inputs: Sequence[Fact]) -> Facts:
    for fact in inputs:
        if fact.dtype != BOOL:
            raise wrong(node, f"computes with {fact}")
    return Fact(BOOL, kind_of(inputs))


def _layout(node: Node, inputs: Sequence[Fact]) -> Facts:
    """Move values about by shapes, sizes and positions that the caller's values do not change."""
    for fact in inputs[1:]:
        if fact.dtype in INTEGERS and fact.kind == Kind.FREE:
            raise wrong(node, "takes sizes or positions from the caller's values")
    return _moved(node, inputs[0], inputs)


def _joined(node: Node, inputs: Sequence[Fact]) -> Facts:
    return _moved(node, inputs[0], inputs)


def _moved(node: Node, first: Fact, inputs: Sequence[Fact]) -> Fact:
    if first.dtype == INT64 and first.kind == Kind.FREE:
        raise wrong(node, "moves int64 of the caller's values")
    value = first.value if len(inputs) == 1 else None
    return Fact(first.dtype, kind_of(inputs), may_be_nan(inputs), value)


def _split(node: Node, inputs: Sequence[Fact]) -> Facts:
    """``Split``: the axis comes before the values."""
    return _layout(node, [inputs[1], inputs[0]])


def _fill(node: Node, inputs: Sequence[Fact]) -> Facts:
    sizes, value = inputs
    return _layout(node, [value, sizes])


def _select(node: Node, inputs: Sequence[Fact]) -> Facts:
    condition, first, second = inputs
    return _moved(node, Fact(first.dtype, max(first.kind, second.kind)), [condition, first, second])


def _transposed_convolution(node: Node, inputs: Sequence[Fact]) -> Facts:
    sizes, filters, values = inputs
    need_kind(node, sizes, Kind.FIXED, "the size")
    return _floats(node, [filters, values])


def _gather(node: Node, inputs: Sequence[Fact]) -> Facts:
    values, positions = inputs[:2]
    need_kind(node, positions, Kind.INDEX, "positions")
    return _moved(node, values, inputs)


def _cast(node: Node, inputs: Sequence[Fact]) -> Facts:
    (source,) = inputs
    target = attribute_type(node, "DstT")
    kind = source.kind
    if target == FLOAT and source.dtype in (FLOAT, UINT8, INT32, BOOL):
        return Fact(FLOAT, kind, source.may_be_nan)
    if source.dtype in INTEGERS and kind <= Kind.INDEX and target in (FLOAT, *INTEGERS):
        return Fact(target, kind)
    if source.dtype == FLOAT and kind == Kind.FIXED and target in INTEGERS:
        return Fact(target, kind)
    if source.dtype == BOOL and target == INT32:
        return Fact(INT32, min(kind, Kind.INDEX))
    raise wrong(node, f"turns {source} into {Fact(target, kind)}")


def _shape(node: Node, _: Sequence[Fact]) -> Facts:
    return Fact(attribute_type(node, "out_type", INT32), Kind.FIXED)


def _position(node: Node, inputs: Sequence[Fact]) -> Facts:
    _floats(node, inputs[:1])
    return Fact(attribute_type(node, "output_type", INT64), Kind.INDEX)


def _top(node: Node, inputs: Sequence[Fact]) -> Facts:
    values, count = inputs
    _floats(node, [values])
    need_kind(node, count, Kind.FIXED, "the count")
    return [("values", values), ("indices", Fact(INT32, Kind.INDEX))]


def _boxes(*names: str) -> Callable[[Node, Sequence[Fact]], Facts]:
    def rule(node: Node, inputs: Sequence[Fact]) -> Facts:
        _floats(node, inputs[:2])
        threshold = inputs[3].value if len(inputs) > 3 else None
        if threshold is None or threshold <= 0:
            raise wrong(node, "has no constant threshold above 0")
        facts = [(name, Fact(FLOAT if "scores" in name else INT32, Kind.INDEX)) for name in names]
        return [(name, Fact(FLOAT, Kind.FREE) if fact.dtype == FLOAT else fact) for name, fact in facts]

    return rule


def _places(node: Node, inputs: Sequence[Fact]) -> Facts:
    """``Where``: the positions of what is true."""
    _logic(node, inputs)
    return Fact(INT64, Kind.INDEX)


def _normalised(node: Node, inputs: Sequence[Fact]) -> Facts:
    if "is_training" not in node.attr or node.attr["is_training"].b:
        raise wrong(node, "learns as it runs (is_training)")
    return _floats(node, inputs)


def _resized(node: Node, inputs: Sequence[Fact]) -> Facts:
    image, size = inputs
    if image.dtype not in (FLOAT, UINT8):
        raise wrong(node, f"computes with {image}")
    need_kind(node, size, Kind.FIXED, "the size")
    is_same = node.op == "ResizeNearestNeighbor"
    return Fact(image.dtype if is_same else FLOAT, image.kind)


def _constant(node: Node, _: Sequence[Fact]) -> Facts:
    dtype = attribute_type(node, "dtype")
    if dtype not in (FLOAT, BOOL, UINT8, *INTEGERS):
        raise wrong(node, f"is a constant of {Fact(dtype, Kind.FIXED)}")
    return Fact(dtype, Kind.FIXED, value=scalar(node) if dtype == FLOAT else None)


def _variable(node: Node, _: Sequence[Fact]) -> Facts:
    dtype = attribute_type(node, "dtype")
    if dtype != FLOAT:
        raise wrong(node, f"holds {Fact(dtype, Kind.FIXED)}")
    return Fact(dtype, Kind.FIXED) if node.op == "ReadVariableOp" else Fact(RESOURCE, Kind.FIXED)


def _stored(node: Node, _: Sequence[Fact]) -> Facts:
    """TensorFlow 1's variable, which is its own value."""
    _variable(node, ())
    return Fact(FLOAT, Kind.FIXED)


def _each(_: Node, inputs: Sequence[Fact]) -> Facts:
    return [("output", fact) for fact in inputs]


def _nothing(_: Node, __: Sequence[Fact]) -> Facts:
    return []


def _table(*groups: tuple[Rule, str]) -> Mapping[str, Rule]:
    return {name: rule for rule, names in groups for name in names.split()}


RULES = _table(
    (_arithmetic, "Add AddV2 Sub Mul"),
    (hides_nan(_arithmetic), "Maximum Minimum"),
    (_whole, "FloorDiv FloorMod"),
    (
        _floats,
        "Conv2D Conv3D DepthwiseConv2dNative BiasAdd MatMul BatchMatMul BatchMatMulV2 AvgPool "
        "Elu Selu LeakyRelu Sigmoid Tanh Softmax Softplus Softsign Erf Erfc Sin Cos Expm1 DivNoNan "
        "Square SquaredDifference Neg Abs Sign Floor Ceil Round Rint AddN",
    ),
    (hides_nan(_floats), "Relu Relu6 MaxPool Exp"),
    (_makes_nan, "Sqrt Rsqrt Log Log1p Pow Reciprocal"),
    (_quotient, "RealDiv"),
    (_transposed_convolution, "Conv2DBackpropInput"),
    (_normalised, "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3"),
    (_reduction, "Mean Sum Prod"),
    (hides_nan(_reduction), "Max Min"),
    (_comparison, "Less LessEqual Equal NotEqual"),
    (hides_nan(_comparison), "Greater GreaterEqual"),
    (_logic, "LogicalAnd LogicalOr LogicalNot"),
    (
        _layout,
        "Identity Reshape Transpose Squeeze ExpandDims Tile Pad PadV2 MirrorPad Slice StridedSlice SplitV Unpack "
        "BroadcastTo StopGradient Snapshot DepthToSpace SpaceToDepth SpaceToBatchND BatchToSpaceND Range",
    ),
    (_joined, "ConcatV2 Pack"),
    (_split, "Split"),
    (_fill, "Fill"),
    (_select, "Select SelectV2"),
    (_gather, "Gather GatherV2 GatherNd"),
    (_cast, "Cast"),
    (_shape, "Shape Size Rank"),
    (hides_nan(_position), "ArgMax ArgMin"),
    (hides_nan(_top), "TopKV2"),
    (hides_nan(_boxes("selected_indices")), "NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3"),
    (hides_nan(_boxes("selected_indices", "valid_outputs")), "NonMaxSuppressionV4"),
    (hides_nan(_boxes("selected_indices", "selected_scores", "valid_outputs")), "NonMaxSuppressionV5"),
    (_places, "Where"),
    (_resized, "ResizeBilinear ResizeNearestNeighbor"),
    (_constant, "Const"),
    (_variable, "VarHandleOp ReadVariableOp"),
    (_stored, "VariableV2"),
    (_each, "IdentityN"),
    (_nothing, "NoOp"),
)
"""The rule of each operation; it returns what is known of the outputs, or raises Refused."""
