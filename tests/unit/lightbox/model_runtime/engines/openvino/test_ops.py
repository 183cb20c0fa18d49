"""Operations and the values for which OpenVINO shares TensorFlow's results."""

from __future__ import annotations

import pytest

from support.graphs import DOUBLE, FLOAT, INT32, INT64, STRING, Model
from support.parameters import each


def test_floats_pass() -> None:
    model = Model()
    model.node("w", "Const", dtype=FLOAT)
    model.node("product", "MatMul", "x", "w")
    model.node("probabilities", "Softmax", "product")
    assert model.refusal("probabilities:0") is None


def test_an_operation_that_is_not_known() -> None:
    model = Model()
    model.node("image", "DecodeJpeg", "x")
    assert model.refusal("image:0") == "operation DecodeJpeg (image) is not known to give equal results"


@pytest.mark.parametrize(("dtype", "word"), [(INT64, "int64"), (DOUBLE, "double"), (STRING, "string")])
def test_inputs_that_openvino_computes_otherwise(dtype: int, word: str) -> None:
    assert Model(dtype).refusal("x:0", dtype) == f"input 'x' is {word}"


def test_large_integers() -> None:
    model = Model()
    model.node("large", "Const", dtype=INT64)
    model.meta.graph_def.node[-1].attr["value"].tensor.int64_val[0] = 1 << 40
    assert model.refusal("large:0", INT64) == "operation Const (large) holds int64 of 16777216 or more"


def test_products_that_may_overflow() -> None:
    model = Model()
    last = "x"
    for number in range(6):
        last = model.node(f"product{number}", "Mul", last, "x")
    model.node("bounded", "Sigmoid", "x")
    model.node("weighted", "Mul", "x", "bounded")
    model.node("a", "Relu", last)
    model.node("b", "Relu", "weighted")
    assert model.refusal("a:0") == "operation Relu (a) may be given NaN"
    assert model.refusal("b:0") is None


@each(("value", "refused"), [(2.0, False), (0.0, True), (float("nan"), True), (float("inf"), True)])
def test_constants_that_make_nan(value: float, refused: bool) -> None:
    model = Model()
    model.node("by", "Const", dtype=FLOAT)
    model.meta.graph_def.node[-1].attr["value"].tensor.float_val[0] = value
    model.node("quotient", "RealDiv", "x", "by")
    model.node("y", "Relu", "quotient")
    assert model.refusal("y:0") == ("operation Relu (y) may be given NaN" if refused else None)


def test_a_cast_of_floats_to_integers() -> None:
    model = Model()
    model.node("whole", "Cast", "x", SrcT=FLOAT, DstT=INT32)
    assert model.refusal("whole:0", INT32) == "operation Cast (whole) turns float into int32"


def test_a_constant_of_another_type() -> None:
    model = Model()
    model.node("pi", "Const", dtype=DOUBLE)
    model.node("sum", "AddV2", "x", "pi")
    assert model.refusal("sum:0") == "operation Const (pi) is a constant of double"


def test_a_normalisation_that_learns() -> None:
    """``is_training`` is true by default, and files omit defaults."""
    model = Model(shape=(-1, 4, 4, 3))
    for name in ("scale", "offset", "mean", "variance"):
        model.node(name, "Const", dtype=FLOAT)
    model.node("normal", "FusedBatchNormV3", "x", "scale", "offset", "mean", "variance")
    assert model.refusal("normal:0") == "operation FusedBatchNormV3 (normal) learns as it runs (is_training)"
    model.meta.graph_def.node[-1].attr["is_training"].b = False
    assert model.refusal("normal:0") is None
