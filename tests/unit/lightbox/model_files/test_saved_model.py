"""Read signatures from a saved_model.pb."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightbox.model.spec import SignatureSpec, TensorSpec
from lightbox.model_files.saved_model import WORST, ModelFileError, Traits, read_signatures, traits
from lightbox.model_runtime.wire.messages import meta_graph_pb2
from lightbox.model_runtime.wire.protobuf import delimited
from support.graphs import Model
from support.models import GOLDEN
from support.parameters import each
from support.patience import PATIENCE

IMAGE_MEAN = (GOLDEN / "image_mean" / "1" / "saved_model.pb").read_bytes()


def graph(tags: list[str], **outputs: str) -> bytes:
    """Return a SavedModel with one graph; ``outputs`` maps each signature to the name of its output."""
    made = meta_graph_pb2.MetaGraphDef()
    made.meta_info_def.tags.extend(tags)
    for name, output in outputs.items():
        made.signature_def[name].method_name = "tensorflow/serving/predict"
        if output:
            made.signature_def[name].outputs[output].dtype = 1
    data: bytes = made.SerializeToString()
    assert len(data) < 128
    return bytes([2 << 3 | 2, len(data)]) + data


def read(folder: Path, data: bytes) -> dict[str, SignatureSpec]:
    (folder / "saved_model.pb").write_bytes(data)
    return read_signatures(folder, "net", 3)


def test_a_recorded_model() -> None:
    found = read_signatures(GOLDEN / "image_mean" / "1", "image_mean", 1)
    image = TensorSpec("image", "uint8", (None, 8, 8, 3))
    mean = TensorSpec("mean", "float32", (None, 3))
    assert found == {
        "serving_default": SignatureSpec("image_mean", 1, "serving_default", {"image": image}, {"mean": mean})
    }


@pytest.mark.extended
@each("folder", sorted(GOLDEN.glob("*/[0-9]*")))
def test_every_recorded_model_as_tensorflow_reads_it(folder: Path) -> None:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(folder)).signatures
    found = read_signatures(folder, "net", 1)
    assert found.keys() == loaded.keys()
    for name, function in loaded.items():
        outputs = {key: spec.shape.as_list() for key, spec in function.structured_outputs.items()}
        read = {key: None if spec.shape is None else list(spec.shape) for key, spec in found[name].outputs.items()}
        assert read == outputs


@each(
    ("data", "said"),
    [
        (graph(["serve"]), "no usable signature"),
        (graph(["serve"], serving_default=""), "no usable signature"),
        (graph(["serve"], __saved_model_init_op="op"), "no usable signature"),
        (graph(["train"], serving_default="y"), "no graph with the single tag 'serve'"),
        (graph(["serve", "tpu"], serving_default="y"), "no graph with the single tag 'serve'"),
        (b"", r"saved_model\.pb is empty: the copy is missing or not complete"),
        (b"\x08\x01", "no graph with the single tag"),
        (b"garbage" * 10, "not a SavedModel, or is damaged"),
        (IMAGE_MEAN[:-1000], "not a SavedModel, or is damaged"),
    ],
)
def test_what_cannot_be_served(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(ModelFileError, match=said) as caught:
        read(tmp_path, data)
    assert str(tmp_path / "saved_model.pb") in str(caught.value)


def test_a_signature_with_a_sparse_input_is_refused_by_name(tmp_path: Path) -> None:
    """TensorFlow describes such a tensor by three others."""
    made = meta_graph_pb2.MetaGraphDef()
    made.meta_info_def.tags.append("serve")
    for name in ("lists", "serving_default"):
        made.signature_def[name].outputs["y"].dtype = 1
        made.signature_def[name].inputs["x"].coo_sparse.values_tensor_name = "values:0"
        said = f"the signature '{name}' takes the sparse tensor 'x', which requests cannot carry"
        with pytest.raises(ModelFileError, match=said):
            read(tmp_path, delimited(2, made.SerializeToString()))
    made.signature_def["serving_default"].inputs["x"].name = "x:0"
    assert list(read(tmp_path, delimited(2, made.SerializeToString()))) == ["serving_default"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be read: No such file"):
        read_signatures(tmp_path, "net", 1)


def test_the_graph_to_serve_is_found_among_others(tmp_path: Path) -> None:
    data = graph(["train"], other="x") + graph(["serve"], serving_default="y")
    assert [spec.outputs.keys() for spec in read(tmp_path, data).values()] == [{"y"}]


@pytest.mark.extended
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, len(IMAGE_MEAN) - 1), st.binary(max_size=8))
def test_damaged_files_raise_nothing_else(tmp_path: Path, at: int, piece: bytes) -> None:
    try:
        read(tmp_path, IMAGE_MEAN[:at] + piece + IMAGE_MEAN[at + len(piece) :])
    except ModelFileError as error:
        assert str(tmp_path) in str(error)


def test_protobuf_comes_with_the_first_file_and_numpy_with_none() -> None:
    code = (
        "import sys, pathlib; from lightbox.model_files.checks import newest_signatures; "
        "from lightbox.model_files.layout import ModelOnDisk; "
        "assert 'google.protobuf' not in sys.modules; "
        "assert newest_signatures(ModelOnDisk('m', pathlib.Path(sys.argv[1]))); "
        "sys.exit(bool({'numpy', 'tensorflow', 'grpc'} & sys.modules.keys()))"
    )
    container = Path(__file__).parents[4] / "container"
    command = [sys.executable, "-P", "-c", code, str(GOLDEN / "image_mean")]
    subprocess.run(command, env={"PYTHONPATH": str(container)}, check=True, timeout=PATIENCE)


def write(model: Model, folder: Path, producer: int = 2000) -> None:
    model.meta.meta_info_def.tags.append("serve")
    model.meta.graph_def.versions.producer = producer
    folder.mkdir(exist_ok=True)
    (folder / "saved_model.pb").write_bytes(delimited(2, model.meta.SerializeToString()))


@each("in_function", [False, True])
@each(
    ("op", "least_rank"),
    [
        ("Conv2D", 4),
        ("Conv3D", 5),
        ("DepthwiseConv2dNative", 4),
        ("_FusedConv2D", 4),
        ("MaxPool3D", 5),
        ("FakeQuantWithMinMaxVarsPerChannel", 1),
        ("Conv2DBackpropInput", 0),
        ("MaxPool", 0),
        ("AvgPool3D", 0),
        ("FakeQuantWithMinMaxVars", 0),
        ("FusedBatchNormV3", 0),
        ("MatMul", 0),
    ],
)
def test_the_operations_whose_server_too_low_a_rank_ends(
    tmp_path: Path, op: str, least_rank: int, in_function: bool
) -> None:
    model = Model()
    if in_function:
        model.function("called", [("y", op, ["x"], {})], "x", "y:output:0")
        model.call("called", "x")
    else:
        model.node("y", op, "x")
    write(model, tmp_path / "007")
    assert traits(tmp_path, 7) == Traits(least_rank, has_no_scalars=False)


def test_traits_of_a_file_that_is_not_there_or_no_longer_the_same(tmp_path: Path) -> None:
    assert traits(tmp_path / "none", 1) == traits(tmp_path, 1) == WORST
    model = Model()
    write(model, tmp_path / "1")
    assert traits(tmp_path, 1).least_rank == 0
    model.node("y", "Conv2D", "x")
    write(model, tmp_path / "1")
    assert traits(tmp_path, 1).least_rank == 4
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"garbage" * 10)
    assert traits(tmp_path, 1) == WORST


@pytest.mark.parametrize(("producer", "shape"), [(23, None), (24, ())])
def test_an_empty_shape_is_unknown_before_producer_24(tmp_path: Path, producer: int, shape: tuple[()] | None) -> None:
    model = Model(shape=())
    model.meta.signature_def["serving_default"].outputs["y"].dtype = 1
    write(model, tmp_path / "1", producer)
    found = read_signatures(tmp_path / "1", "net", 1)["serving_default"]
    assert found.inputs["x"].shape == found.outputs["y"].shape == shape
    assert traits(tmp_path, 1).has_no_scalars == (shape is None)
