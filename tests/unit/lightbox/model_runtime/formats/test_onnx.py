"""The signature that an ONNX file declares."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from lightbox.model_runtime.formats.onnx import read_signature, weights_outside
from lightbox.model_runtime.formats.signature import signature_def
from lightbox.model_runtime.wire.dtypes import name_of
from support.onnx_models import write, write_dense
from support.parameters import each

DTYPES = {"FLOAT": "float", "UINT8": "uint8", "INT64": "int64", "STRING": "string", "BOOL": "bool", "FLOAT16": "half"}


@each(("dtype", "name"), DTYPES.items())
def test_dtypes(tmp_path: Path, dtype: str, name: str) -> None:
    file = tmp_path / "m.onnx"
    write(file, [helper.make_node("Identity", ["x"], ["y"])], {"x": (dtype, None)}, {"y": (dtype, [])})
    found = read_signature(file)
    assert (name_of(found.inputs["x"].dtype), found.inputs["x"].shape) == (name, None)
    assert (name_of(found.outputs["y"].dtype), found.outputs["y"].shape) == (name, ())
    made = signature_def(found)
    assert made.inputs["x"].tensor_shape.unknown_rank
    assert not made.outputs["y"].tensor_shape.unknown_rank
    assert made.method_name == "tensorflow/serving/predict"


def test_open_dimensions(tmp_path: Path) -> None:
    """Exporters write an open dimension as a name, without a size, or as -1 (PaddlePaddle)."""
    node = helper.make_node("Identity", ["x"], ["y"])
    write(tmp_path / "m.onnx", [node], {"x": ("FLOAT", ["n", 3, -1])}, {"y": ("FLOAT", [-1, 3, "width"])})
    found = read_signature(tmp_path / "m.onnx")
    assert (found.inputs["x"].shape, found.outputs["y"].shape) == ((None, 3, None), (None, 3, None))


def test_what_no_engine_carries_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    write(file, [helper.make_node("Cast", ["x"], ["y"], to=16)], {"x": ("FLOAT", ["n"])}, {"y": ("BFLOAT16", ["n"])})
    with pytest.raises(ValueError, match="'y' has the dtype 16 of ONNX, which cannot be served"):
        read_signature(file)


def test_outputs_that_are_no_tensors(tmp_path: Path) -> None:
    number = helper.make_tensor_type_proto(1, None)
    scores = helper.make_map_type_proto(7, number)
    kinds = {
        "a sequence": helper.make_sequence_type_proto(scores),
        "a map": scores,
        "an optional": helper.make_optional_type_proto(number),
        "a sparse tensor": helper.make_sparse_tensor_type_proto(1, None),
    }
    for kind, described in kinds.items():
        output = helper.make_value_info("scores", described)
        graph = helper.make_graph([], "g", [], [output])
        (tmp_path / "m.onnx").write_bytes(helper.make_model(graph).SerializeToString())
        with pytest.raises(ValueError, match=f"'scores' is {kind}, expected a tensor"):
            read_signature(tmp_path / "m.onnx")


def test_weights_in_another_file(tmp_path: Path) -> None:
    file, weights = tmp_path / "m.onnx", tmp_path / "of m"
    write_dense(file)
    onnx.save_model(onnx.load(file), file, save_as_external_data=True, location=weights.name, size_threshold=0)
    assert list(read_signature(file).inputs) == ["x"]
    weights.write_bytes(weights.read_bytes()[:47])
    with pytest.raises(ValueError, match=f"^{weights} has 47 bytes, expected 48$"):
        read_signature(file)
    weights.unlink()
    with pytest.raises(ValueError, match=f"^{weights} is missing$"):
        read_signature(file)


@pytest.mark.extended
def test_nodes_with_millions_of_numbers_and_texts(tmp_path: Path) -> None:
    """Forests of trees have their numbers in the attributes of one node, vectorizers their words, also "location"; some
    exporters have all weights in nodes."""
    forest = helper.make_node("TreeEnsembleRegressor", ["x"], ["t"], domain="ai.onnx.ml")
    forest.attribute.add(name="nodes_values", type=onnx.AttributeProto.FLOATS, floats=[0.5] * 1_000_000)
    weights = [
        helper.make_node("Constant", [], [f"w{number}"], value=numpy_helper.from_array(np.zeros(15_000, np.float32)))
        for number in range(400)
    ]
    numbers, texts = [1000] * 400_000, ["location", *map(str, range(400_000))]
    words = helper.make_node("TfIdfVectorizer", ["i"], ["t"], weights=[0.5] * 400_000, ngram_indexes=numbers)
    words.attribute.add(name="pool_strings", type=onnx.AttributeProto.STRINGS, strings=map(str.encode, texts))
    nodes = [forest, words, *weights, helper.make_node("Identity", ["x"], ["y"])]
    constants = {"texts": np.array(texts, object)}
    write(tmp_path / "m.onnx", nodes, {"x": ("FLOAT", ["n", 4])}, {"y": ("FLOAT", ["n", 4])}, constants)
    assert list(read_signature(tmp_path / "m.onnx").inputs) == ["x"]
    assert weights_outside(tmp_path / "m.onnx") == []


def test_weights_of_a_large_node_in_another_file(tmp_path: Path) -> None:
    """The name may lie across two pieces of the file."""
    for before in range(1 << 20, (1 << 20) + 16):
        node = helper.make_node("Constant", [], ["w"], value=helper.make_tensor("w", onnx.TensorProto.FLOAT, [1], [1]))
        node.doc_string = "x" * (before - len(node.SerializeToString()) - 40)
        tensor = node.attribute[0].t
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="w.bin")
        nodes = [node, helper.make_node("Identity", ["x"], ["y"])]
        write(tmp_path / "m.onnx", nodes, {"x": ("FLOAT", ["n", 4])}, {"y": ("FLOAT", ["n", 4])})
        assert weights_outside(tmp_path / "m.onnx") == ["w.bin"]


def test_constants_are_no_inputs(tmp_path: Path) -> None:
    """Older files and exporters with keep_initializers_as_inputs list constants among the inputs."""
    node = helper.make_node("Add", ["x", "c"], ["y"])
    constants = {"c": np.ones((1, 4), np.float32)}
    write(
        tmp_path / "m.onnx",
        [node],
        {"x": ("FLOAT", ["n", 4]), "c": ("FLOAT", [1, 4])},
        {"y": ("FLOAT", ["n", 4])},
        constants,
    )
    assert list(read_signature(tmp_path / "m.onnx").inputs) == ["x"]
