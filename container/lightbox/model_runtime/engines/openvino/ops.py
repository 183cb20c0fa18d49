"""The operations whose results OpenVINO shares with TensorFlow, and for which values.

Other operations are refused: OpenVINO computes 64-bit integers in 32 bits and double as float, saturates small
integers, keeps no state, and drops Assert and range checks, all without an error (docs/engines.md). The canary
detects a wrongly read attribute; these rules cover values that a canary may not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lightbox.model_runtime.engines.openvino.facts import (
    BOOL,
    FLOAT,
    INT32,
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
    is_small,
    kind_of,
    made_of,
    moved,
    need_floats,
    need_kind,
    need_small,
    wrong,
)
from lightbox.model_runtime.engines.openvino.graph import Node
from lightbox.model_runtime.engines.openvino.positions import boxes, cut, gathered, position, shape, split, steps, top


def _sum(node: Node, inputs: Sequence[Fact]) -> Facts:
    need_small(node, inputs)
    return made_of(inputs) if inputs[0].dtype == FLOAT else Fact(inputs[0].dtype, kind_of(inputs))


def _product(node: Node, inputs: Sequence[Fact]) -> Facts:
    need_small(node, inputs)
    return made_of(inputs, inputs) if inputs[0].dtype == FLOAT else Fact(inputs[0].dtype, kind_of(inputs))


def _floats(node: Node, inputs: Sequence[Fact]) -> Fact:
    """Float operations, several of which may be multiplied."""
    need_floats(node, inputs)
    return made_of(inputs, inputs)


def _squares(node: Node, inputs: Sequence[Fact]) -> Facts:
    need_floats(node, inputs)
    return made_of(inputs, [max(inputs, key=lambda fact: fact.degree)] * 2)


def _bounded(node: Node, inputs: Sequence[Fact]) -> Facts:
    """Operations with small results for all inputs."""
    fact = _floats(node, inputs)
    return Fact(FLOAT, fact.kind, fact.may_be_nan)


def _makes_nan(node: Node, inputs: Sequence[Fact]) -> Facts:
    """Operations with an undefined range: with the caller's values the result may be NaN."""
    fact = _floats(node, inputs)
    return Fact(FLOAT, fact.kind, fact.may_be_nan or fact.kind == Kind.FREE, degree=fact.degree)


def _exponential(node: Node, inputs: Sequence[Fact]) -> Facts:
    """Exp: ``guards`` detects large and infinite results, from which NaN may arise."""
    need_floats(node, inputs)
    return Fact(FLOAT, kind_of(inputs), degree=1)


def _quotient(node: Node, inputs: Sequence[Fact]) -> Facts:
    dividend, divisor = inputs
    need_floats(node, inputs)
    fact = made_of([dividend, divisor])
    makes_nan = divisor.kind == Kind.FREE or divisor.has_zero
    return Fact(FLOAT, fact.kind, fact.may_be_nan or makes_nan, degree=fact.degree)


def _mean(node: Node, inputs: Sequence[Fact]) -> Facts:
    values, axes = inputs
    need_floats(node, [values])
    need_kind(node, axes, Kind.CONSTANT, "axes")
    return made_of([values])


def _order(node: Node, inputs: Sequence[Fact]) -> Facts:
    need_small(node, [fact for fact in inputs if not (fact.dtype == INT32 and fact.is_counted)])
    return Fact(BOOL, kind_of(inputs))


def _equality(node: Node, inputs: Sequence[Fact]) -> Facts:
    need_floats(node, inputs)
    return Fact(BOOL, kind_of(inputs))


def _logic(node: Node, inputs: Sequence[Fact]) -> Facts:
    for fact in inputs:
        if fact.dtype != BOOL:
            raise wrong(node, f"computes with {fact}")
    return Fact(BOOL, kind_of(inputs))


def _layout(node: Node, inputs: Sequence[Fact]) -> Facts:
    """Operations that move values by sizes independent of the caller's values."""
    for fact in inputs[1:]:
        need_kind(node, fact, Kind.FIXED, "sizes")
    return moved(node, inputs[0], inputs)


def _padded(node: Node, inputs: Sequence[Fact]) -> Facts:
    values, sizes, *filling = inputs
    need_kind(node, sizes, Kind.FIXED, "sizes")
    return moved(node, values, [values, *filling])


def _joined(node: Node, inputs: Sequence[Fact]) -> Facts:
    return moved(node, inputs[0], inputs)


def _fill(node: Node, inputs: Sequence[Fact]) -> Facts:
    sizes, value = inputs
    return _layout(node, [value, sizes])


def _select(node: Node, inputs: Sequence[Fact]) -> Facts:
    condition, first, second = inputs
    return moved(node, Fact(first.dtype, max(first.kind, second.kind)), [condition, first, second])


def _cast(node: Node, inputs: Sequence[Fact]) -> Facts:
    (source,) = inputs
    target = attribute_type(node, "DstT")
    kind = source.kind
    if target == FLOAT and source.dtype in (FLOAT, UINT8, INT32, BOOL):
        return Fact(FLOAT, kind, source.may_be_nan, degree=1 if kind == Kind.FREE else 0)
    if source.dtype in INTEGERS and is_small(source) and target in (FLOAT, *INTEGERS):
        return Fact(target, kind, is_counted=source.is_counted and target != FLOAT)
    if source.dtype == FLOAT and kind == Kind.CONSTANT and target == INT32:
        return Fact(target, kind)
    raise wrong(node, f"turns {source} into {Fact(target, kind)}")


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
    """TensorFlow 1's variable, whose output is its value."""
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
    (hides_nan(_exponential), "Exp"),
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
    (cut, "Slice StridedSlice SplitV Unpack"),
    (gathered, "Gather GatherV2 GatherNd"),
    (_padded, "Pad PadV2 MirrorPad"),
    (_joined, "ConcatV2 Pack"),
    (split, "Split"),
    (_fill, "Fill"),
    (steps, "Range"),
    (_select, "Select SelectV2"),
    (_cast, "Cast"),
    (shape, "Shape Size Rank"),
    (hides_nan(position), "ArgMax ArgMin"),
    (hides_nan(top), "TopKV2"),
    (hides_nan(boxes("selected_indices")), "NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3"),
    (hides_nan(boxes("selected_indices", "valid_outputs")), "NonMaxSuppressionV4"),
    (hides_nan(boxes("selected_indices", "selected_scores", "valid_outputs")), "NonMaxSuppressionV5"),
    (hides_nan(_resized), "ResizeBilinear ResizeNearestNeighbor"),
    (_constant, "Const"),
    (_variable, "VarHandleOp ReadVariableOp"),
    (_stored, "VariableV2"),
    (_each, "IdentityN"),
    (_nothing, "NoOp"),
)
"""The rule of each operation; it returns the facts of the outputs, or raises Refused."""
