"""The operations whose answers OpenVINO shares with TensorFlow, and for which values.

What is not listed is refused: OpenVINO computes 64-bit integers in 32 bits, double as float, saturates small
integers, keeps no state, and drops Assert and range checks, all without an error (docs/model_server.md). A
wrong reading of an attribute shows in the canary; these rules are about values that a canary may not meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    constant_of,
    hides_nan,
    kind_of,
    made_of,
    may_be_nan,
    need_kind,
    need_small,
    wrong,
)
from model_server.engines.graph import Node


def _sum(node: Node, inputs: Sequence[Fact]) -> Facts:
    need_small(node, inputs)
    return made_of(inputs) if inputs[0].dtype == FLOAT else Fact(inputs[0].dtype, kind_of(inputs))


def _product(node: Node, inputs: Sequence[Fact]) -> Facts:
    need_small(node, inputs)
    return made_of(inputs, inputs) if inputs[0].dtype == FLOAT else Fact(inputs[0].dtype, kind_of(inputs))


def _need_floats(node: Node, inputs: Sequence[Fact]) -> None:
    for fact in inputs:
        if fact.dtype != FLOAT:
            raise wrong(node, f"computes with {fact}")


def _floats(node: Node, inputs: Sequence[Fact]) -> Fact:
    """Compute with floats, several of which may be multiplied."""
    _need_floats(node, inputs)
    return made_of(inputs, inputs)


def _squares(node: Node, inputs: Sequence[Fact]) -> Facts:
    _need_floats(node, inputs)
    return made_of(inputs, [max(inputs, key=lambda fact: fact.degree)] * 2)


def _bounded(node: Node, inputs: Sequence[Fact]) -> Facts:
    """Results are small, whatever the inputs."""
    fact = _floats(node, inputs)
    return Fact(FLOAT, fact.kind, fact.may_be_nan)


def _makes_nan(node: Node, inputs: Sequence[Fact]) -> Facts:
    """An operation that is not defined everywhere: of the caller's values the result may be NaN."""
    fact = _floats(node, inputs)
    return Fact(FLOAT, fact.kind, fact.may_be_nan or fact.kind == Kind.FREE, degree=fact.degree)


def _quotient(node: Node, inputs: Sequence[Fact]) -> Facts:
    dividend, divisor = inputs
    _need_floats(node, inputs)
    fact = made_of([dividend, divisor])
    makes_nan = divisor.kind == Kind.FREE or divisor.has_zero
    return Fact(FLOAT, fact.kind, fact.may_be_nan or makes_nan, degree=fact.degree)


def _mean(node: Node, inputs: Sequence[Fact]) -> Facts:
    values, axes = inputs
    _need_floats(node, [values])
    need_kind(node, axes, Kind.CONSTANT, "axes")
    return made_of([values])


def _order(node: Node, inputs: Sequence[Fact]) -> Facts:
    need_small(node, inputs)
    return Fact(BOOL, kind_of(inputs))


def _equality(node: Node, inputs: Sequence[Fact]) -> Facts:
    _need_floats(node, inputs)
    return Fact(BOOL, kind_of(inputs))


def _logic(node: Node, inputs: Sequence[Fact]) -> Facts:
    for fact in inputs:
        if fact.dtype != BOOL:
            raise wrong(node, f"computes with {fact}")
    return Fact(BOOL, kind_of(inputs))


def _layout(node: Node, inputs: Sequence[Fact]) -> Facts:
    """Move values about by sizes that the caller's values do not change."""
    for fact in inputs[1:]:
        need_kind(node, fact, Kind.FIXED, "sizes")
    return _moved(node, inputs[0], inputs)


def _cut(node: Node, inputs: Sequence[Fact]) -> Facts:
    """Take values from positions: beyond the end TensorFlow raises an error, and OpenVINO answers."""
    for fact in inputs[1:]:
        need_kind(node, fact, Kind.CONSTANT, "positions")
    return _moved(node, inputs[0], inputs)


def _padded(node: Node, inputs: Sequence[Fact]) -> Facts:
    values, sizes, *filling = inputs
    need_kind(node, sizes, Kind.FIXED, "sizes")
    return _moved(node, values, [values, *filling])


def _joined(node: Node, inputs: Sequence[Fact]) -> Facts:
    return _moved(node, inputs[0], inputs)


def _moved(node: Node, first: Fact, inputs: Sequence[Fact]) -> Fact:
    if first.dtype == INT64 and first.kind == Kind.FREE:
        raise wrong(node, "moves int64 of the caller's values")
    value = first.value if len(inputs) == 1 else None
    degree = max(fact.degree for fact in inputs)
    has_zero = any(fact.has_zero for fact in inputs)
    return Fact(first.dtype, kind_of(inputs), may_be_nan(inputs), value, has_zero, degree)


def _split(node: Node, inputs: Sequence[Fact]) -> Facts:
    """``Split``: the axis comes before the values."""
    return _cut(node, [inputs[1], inputs[0]])


def _fill(node: Node, inputs: Sequence[Fact]) -> Facts:
    sizes, value = inputs
    return _layout(node, [value, sizes])


def _range(node: Node, inputs: Sequence[Fact]) -> Facts:
    """OpenVINO ends the process where steps are 0."""
    for fact in inputs:
        need_kind(node, fact, Kind.CONSTANT, "limits")
    return Fact(inputs[0].dtype, Kind.CONSTANT, has_zero=True)


def _select(node: Node, inputs: Sequence[Fact]) -> Facts:
    condition, first, second = inputs
    return _moved(node, Fact(first.dtype, max(first.kind, second.kind)), [condition, first, second])


def _cast(node: Node, inputs: Sequence[Fact]) -> Facts:
    (source,) = inputs
    target = attribute_type(node, "DstT")
    kind = source.kind
    if target == FLOAT and source.dtype in (FLOAT, UINT8, INT32, BOOL):
        return Fact(FLOAT, kind, source.may_be_nan, degree=1 if kind == Kind.FREE else 0)
    if source.dtype in INTEGERS and kind <= Kind.FIXED and target in (FLOAT, *INTEGERS):
        return Fact(target, kind)
    if source.dtype == FLOAT and kind == Kind.CONSTANT and target == INT32:
        return Fact(target, kind)
    raise wrong(node, f"turns {source} into {Fact(target, kind)}")


def _shape(node: Node, _: Sequence[Fact]) -> Facts:
    return Fact(attribute_type(node, "out_type", INT32), Kind.FIXED)


def _position(node: Node, inputs: Sequence[Fact]) -> Facts:
    _need_floats(node, inputs[:1])
    return Fact(attribute_type(node, "output_type", INT64), kind_of(inputs))


def _top(node: Node, inputs: Sequence[Fact]) -> Facts:
    values, count = inputs
    _need_floats(node, [values])
    need_kind(node, count, Kind.CONSTANT, "the count")
    return [("values", values), ("indices", Fact(INT32, values.kind))]


def _boxes(*names: str) -> Rule:
    def rule(node: Node, inputs: Sequence[Fact]) -> Facts:
        _need_floats(node, inputs[:2])
        threshold = inputs[3].value if len(inputs) > 3 else None
        if threshold is None or threshold <= 0:
            raise wrong(node, "has no constant threshold above 0")
        return [(name, Fact(FLOAT if "scores" in name else INT32, Kind.FREE)) for name in names]

    return rule


def _normalised(node: Node, inputs: Sequence[Fact]) -> Facts:
    if "is_training" not in node.attr or node.attr["is_training"].b:
        raise wrong(node, "learns as it runs (is_training)")
    return _floats(node, inputs)


def _resized(node: Node, inputs: Sequence[Fact]) -> Facts:
    image, size = inputs
    if image.dtype not in (FLOAT, UINT8):
        raise wrong(node, f"computes with {image}")
    need_kind(node, size, Kind.CONSTANT, "the size")
    is_same = node.op == "ResizeNearestNeighbor"
    return Fact(image.dtype if is_same else FLOAT, image.kind, degree=max(image.degree, int(image.kind == Kind.FREE)))


def _constant(node: Node, _: Sequence[Fact]) -> Facts:
    dtype = attribute_type(node, "dtype")
    if dtype not in (FLOAT, BOOL, UINT8, *INTEGERS):
        raise wrong(node, f"is a constant of {Fact(dtype, Kind.CONSTANT)}")
    return constant_of(node, dtype)


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
    (_sum, "Add AddV2 Sub"),
    (_product, "Mul"),
    (hides_nan(_sum), "Maximum Minimum"),
    (
        _floats,
        "Conv2D Conv3D DepthwiseConv2dNative BiasAdd MatMul BatchMatMul BatchMatMulV2 AvgPool "
        "Elu Selu LeakyRelu DivNoNan Neg Abs Floor Ceil Round Rint",
    ),
    (_bounded, "Sigmoid Tanh Softmax Softsign Erf Sin Cos Sign"),
    (_squares, "Square SquaredDifference"),
    (hides_nan(_floats), "Relu MaxPool"),
    (hides_nan(_bounded), "Relu6"),
    (hides_nan(_makes_nan), "Exp"),
    (_makes_nan, "Sqrt Rsqrt Log Pow Reciprocal"),
    (_quotient, "RealDiv"),
    (_normalised, "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3"),
    (_mean, "Mean Sum"),
    (hides_nan(_mean), "Max Min"),
    (_order, "Less LessEqual"),
    (hides_nan(_order), "Greater GreaterEqual"),
    (_equality, "Equal NotEqual"),
    (_logic, "LogicalAnd LogicalOr LogicalNot"),
    (
        _layout,
        "Identity Reshape Transpose Squeeze ExpandDims Tile BroadcastTo StopGradient Snapshot "
        "DepthToSpace SpaceToDepth SpaceToBatchND BatchToSpaceND",
    ),
    (_cut, "Slice StridedSlice SplitV Unpack Gather GatherV2 GatherNd"),
    (_padded, "Pad PadV2 MirrorPad"),
    (_joined, "ConcatV2 Pack"),
    (_split, "Split"),
    (_fill, "Fill"),
    (_range, "Range"),
    (_select, "Select SelectV2"),
    (_cast, "Cast"),
    (_shape, "Shape Size Rank"),
    (hides_nan(_position), "ArgMax ArgMin"),
    (hides_nan(_top), "TopKV2"),
    (hides_nan(_boxes("selected_indices")), "NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3"),
    (hides_nan(_boxes("selected_indices", "valid_outputs")), "NonMaxSuppressionV4"),
    (hides_nan(_boxes("selected_indices", "selected_scores", "valid_outputs")), "NonMaxSuppressionV5"),
    (hides_nan(_resized), "ResizeBilinear ResizeNearestNeighbor"),
    (_constant, "Const"),
    (_variable, "VarHandleOp ReadVariableOp"),
    (_stored, "VariableV2"),
    (_each, "IdentityN"),
    (_nothing, "NoOp"),
)
"""The rule of each operation; it returns what is known of the outputs, or raises Refused."""
