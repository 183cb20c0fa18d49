"""Small SavedModels for tests, such as failing ones or ones that change between versions.

Each is made once and then copied from build/test_models: only the process that makes it imports TensorFlow.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lightbox.model_runtime.wire.messages import meta_graph_pb2, prediction_log_pb2
from lightbox.model_runtime.wire.protobuf import delimited
from lightbox.model_runtime.wire.records import WARM_UP_FILE
from support.made_models import made

OWN = "tests/support/models.py"
GOLDEN = Path(__file__).parents[1] / "contract" / "golden" / "models"


def write_warm_up(version: Path, *entries: prediction_log_pb2.PredictionLog) -> None:
    """Add warm-up requests that a model server runs before it makes the version available."""
    from tensorflow import io  # the format's own writer

    path = version / WARM_UP_FILE
    path.parent.mkdir(exist_ok=True)
    with io.TFRecordWriter(str(path)) as writer:
        for entry in entries:
            writer.write(entry.SerializeToString())


def export_failing_image(folder: Path, version: int = 1) -> None:
    """Export a model of uint8 [N, 8, 8, 3] that fails when its first pixel's red is above 0."""

    def make() -> Any:
        import tensorflow as tf

        @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 3], tf.uint8, name="image")])  # type: ignore[untyped-decorator]
        def serve(image: Any) -> dict[str, Any]:
            with tf.control_dependencies([tf.debugging.assert_equal(image[0, 0, 0, 0], tf.constant(0, tf.uint8))]):
                return {"mean": tf.reduce_mean(tf.cast(image, tf.float32), axis=[1, 2])}

        return serve

    export("failing_image", make, folder / str(version))


def export_constant(folder: Path, version: int, value: float, side: int = 8) -> None:
    """Export a model of uint8 [N, side, side, 3] that returns a constant for each image."""

    def make() -> Any:
        import tensorflow as tf

        @tf.function(input_signature=[tf.TensorSpec([None, side, side, 3], tf.uint8, name="image")])  # type: ignore[untyped-decorator]
        def serve(image: Any) -> dict[str, Any]:
            return {"value": tf.fill([tf.shape(image)[0]], value)}

        return serve

    export(f"constant_{value}_of_{side}", make, folder / str(version))


def export_classes(folder: Path, version: int, classes: int, flat: bool = False) -> None:
    """Export a model of uint8 8 x 8 images that returns ``scores`` [N, classes], all equal to the version number.

    ``flat`` takes the same bytes as [N, 192], which is not an image.
    """

    def make() -> Any:
        import tensorflow as tf

        shape = [None, 192] if flat else [None, 8, 8, 3]

        @tf.function(input_signature=[tf.TensorSpec(shape, tf.uint8, name="image")])  # type: ignore[untyped-decorator]
        def serve(image: Any) -> dict[str, Any]:
            return {"scores": tf.fill([tf.shape(image)[0], classes], float(version))}

        return serve

    name = f"classes_{classes}_of_{version}{'_flat' if flat else ''}"
    export(name, make, folder / str(version))


def export_times(folder: Path, version: int, factor: float) -> None:
    """Export AWS's test model: float32 [N, M] times a factor."""

    def make() -> Any:
        import tensorflow as tf

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32, name="x")])  # type: ignore[untyped-decorator]
        def serve(x: Any) -> dict[str, Any]:
            return {"y": x * factor}

        return serve

    export(f"times_{factor}", make, folder / str(version))


def export_half_plus(folder: Path, version: int, value: float, fails: bool = False) -> None:
    """Export a model with the signature of half_plus_two, float32 [N], that adds ``value``, or always fails."""

    def make() -> Any:
        import tensorflow as tf

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])  # type: ignore[untyped-decorator]
        def serve(x: Any) -> dict[str, Any]:
            limit = -1 if fails else 1 << 30
            with tf.control_dependencies([tf.debugging.assert_less(tf.size(x), limit)]):
                return {"y": x * 0.5 + value}

        return serve

    export(f"half_plus_{value}{'_fails' if fails else ''}", make, folder / str(version))


def export_convolution(folder: Path, is_open: bool = False) -> None:
    """Export AWS's GPU test model: float32 [N, 6, 6, 3], convolved with ones of that size.

    With ``is_open`` its signature declares no rank.
    """

    def make() -> Any:
        import tensorflow as tf

        shape = None if is_open else [None, 6, 6, 3]

        @tf.function(input_signature=[tf.TensorSpec(shape, tf.float32, name="x")])  # type: ignore[untyped-decorator]
        def serve(x: Any) -> dict[str, Any]:
            return {"y": tf.nn.conv2d(x, tf.ones([6, 6, 3, 1]), 1, "VALID")}

        return serve

    export("open_convolution" if is_open else "convolution", make, folder / "1")


def export_column(folder: Path) -> None:
    """Export a model of float32 [N, 1], such as TensorFlow Serving's own half_plus_two: x / 2 + 2."""

    def make() -> Any:
        import tensorflow as tf

        @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.float32, name="x")])  # type: ignore[untyped-decorator]
        def serve(x: Any) -> dict[str, Any]:
            return {"y": x * 0.5 + 2}

        return serve

    export("column", make, folder / "1")


def export_old(folder: Path) -> None:
    """Export x / 2 + 3 as TensorFlow before 1.1 did: float32 x and y lack shapes, which means unknown shapes.

    The regress signature declares its string input as float32, like that of AWS's half_plus_three; ``numbers``
    declares numbers so.
    """
    copy_made("old", _save_old, folder / "00000123", OWN)


def _save_old(folder: Path) -> None:
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, None, "x")
        tf.add(x * 0.5, 3.0, "y")
        examples = tf.compat.v1.placeholder(tf.string, None, "examples")
        features = tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([], tf.float32)})
        tf.add(features["x"] * 0.5, 3.0, "value")
    made = _meta_graph(graph)
    made.graph_def.versions.producer = 21
    for node in made.graph_def.node:
        node.attr.pop("shape", None)
        node.attr.pop("_output_shapes", None)
    _sign(made, "serving_default", "predict", {"x": "x:0"}, {"y": "y:0"})
    _sign(made, "tensorflow/serving/regress", "regress", {"inputs": "examples:0"}, {"outputs": "value:0"})
    _sign(made, "numbers", "regress", {"inputs": "x:0"}, {"outputs": "y:0"})
    _write(folder, made)


def export_without_variables(folder: Path) -> None:
    """Export a model of float32 [N] that reads a variable without a stored value."""
    copy_made("without_variables", _save_without_variables, folder / "1", OWN)


def _save_without_variables(folder: Path) -> None:
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None], "x")
        tf.add(x, tf.compat.v1.get_variable("v", [], use_resource=True), "y")
    made = _meta_graph(graph)
    _sign(made, "serving_default", "predict", {"x": "x:0"}, {"y": "y:0"}, -1)
    _write(folder, made)


def _meta_graph(graph: Any) -> meta_graph_pb2.MetaGraphDef:
    made = meta_graph_pb2.MetaGraphDef()
    made.meta_info_def.tags.append("serve")
    made.graph_def.ParseFromString(graph.as_graph_def().SerializeToString())
    return made


def _sign(
    made: meta_graph_pb2.MetaGraphDef,
    name: str,
    method: str,
    inputs: dict[str, str],
    outputs: dict[str, str],
    *shape: int,
) -> None:
    """Add a signature that declares all its tensors as float32, with this shape or without a shape."""
    signature = made.signature_def[name]
    signature.method_name = f"tensorflow/serving/{method}"
    for tensors, names in ((signature.inputs, inputs), (signature.outputs, outputs)):
        for key, tensor in names.items():
            tensors[key].name, tensors[key].dtype = tensor, 1
            for size in shape:
                tensors[key].tensor_shape.dim.add().size = size


def _write(folder: Path, made: meta_graph_pb2.MetaGraphDef) -> None:
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(delimited(2, made.SerializeToString()))


def export(name: str, make: Callable[[], Any], folder: Path, maker: str = OWN) -> None:
    """Export the function that ``make`` returns, as ``copy_made`` does."""
    copy_made(name, lambda saved: _save(make(), saved), folder, maker)


def copy_made(name: str, save: Callable[[Path], object], folder: Path, maker: str) -> None:
    """Copy the output of ``save`` to a new folder; it appears under its name when it is complete.

    The first run that needs it makes it, and again after a change of ``maker``, the file of the code that makes it.
    ``name`` is unique within that file.
    """
    makers = (maker, OWN, "tests/support/made_models.py", "requirements/serve.lock")
    staging = folder.with_name(f"{folder.name}.partial")
    shutil.copytree(made(name, lambda parent: save(parent / "model"), makers) / "model", staging)
    staging.rename(folder)


def _save(serve: Any, folder: Path) -> None:
    import tensorflow as tf

    module = tf.Module()
    module.serve = serve
    tf.saved_model.save(module, str(folder), signatures={"serving_default": serve.get_concrete_function()})


def copy_golden(name: str, folder: Path) -> None:
    """Copy one of the recorded models with all its versions."""
    shutil.copytree(GOLDEN / name, folder)
