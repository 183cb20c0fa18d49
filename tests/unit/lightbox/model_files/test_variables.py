"""Find the missing parts of a SavedModel in its files. TensorFlow wrote each model of this module."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lightbox.model_files.saved_model import ModelFileError, check_whole
from lightbox.tools.model_zoo.export import quiet_tensorflow
from support.compressed_index import compress_index
from support.models import GOLDEN, copy_made
from support.parameters import each

pytestmark = pytest.mark.extended

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
DATA = "variables/variables.data-00000-of-00001"


MAKER = "tests/unit/lightbox/model_files/test_variables.py"


def module_with_variables(folder: Path, *shapes: tuple[int, ...], dtype: str = "float32") -> Path:
    """Export a model with one variable per shape, named v0, v1 and so on."""
    named = hashlib.sha256(repr(shapes).encode()).hexdigest()[:16]
    copy_made(f"variables_{dtype}_{named}", lambda made: save_variables(made, shapes, dtype), folder, MAKER)
    return folder


def save_variables(folder: Path, shapes: tuple[tuple[int, ...], ...], dtype: str) -> None:
    quiet_tensorflow()
    import tensorflow as tf

    class Net(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            self.v = [tf.Variable(tf.ones(shape, dtype), name=f"v{i}") for i, shape in enumerate(shapes)]

        @tf.function(input_signature=[tf.TensorSpec([None], dtype)])  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> dict[str, Any]:
            return {"y": x + sum(tf.reduce_sum(variable) for variable in self.v)}

    tf.saved_model.save(Net(), str(folder))


def graph_of_tf1(folder: Path) -> Path:
    """Export a TensorFlow 1 graph with a plain and a partitioned variable; its saver is not a function."""
    copy_made("graph_of_tf1", save_graph_of_tf1, folder, MAKER)
    return folder


def save_graph_of_tf1(folder: Path) -> None:
    quiet_tensorflow()
    import tensorflow as tf

    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None], name="x")
        plain = v1.get_variable("plain", [2], use_resource=False)
        parts = v1.get_variable("parts", [6, 2], partitioner=v1.fixed_size_partitioner(3))
        y = x + tf.reduce_sum(plain) + tf.reduce_sum(tf.convert_to_tensor(parts))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(folder), {"x": x}, {"y": y})


def with_vocabulary(folder: Path) -> Path:
    """Export a model that reads an asset file."""
    copy_made("with_vocabulary", save_with_vocabulary, folder, MAKER)
    return folder


def save_with_vocabulary(folder: Path) -> None:
    quiet_tensorflow()
    import tensorflow as tf

    words = folder.with_suffix(".txt")
    words.write_text("cat\ndog\n")

    class Net(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            lines = tf.lookup.TextFileInitializer(
                str(words), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
            )
            self.table = tf.lookup.StaticHashTable(lines, -1)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> dict[str, Any]:
            return {"y": self.table.lookup(x)}

    tf.saved_model.save(Net(), str(folder))
    words.unlink()


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export a model with 300 variables: its index has several blocks."""
    shapes = [(3, i + 1) for i in range(300)]
    return module_with_variables(tmp_path_factory.mktemp("variables") / "1", *shapes)


@pytest.fixture
def model(several: Path, tmp_path: Path) -> Path:
    shutil.copytree(several, tmp_path / "1")
    return tmp_path / "1"


def problem(folder: Path) -> str:
    with pytest.raises(ModelFileError) as raised:
        check_whole(folder)
    return str(raised.value)


@pytest.mark.parametrize("make", [graph_of_tf1, with_vocabulary, module_with_variables])
def test_whole_models_have_no_problem(make: Callable[[Path], Path], tmp_path: Path) -> None:
    check_whole(make(tmp_path / "1"))


@each("folder", sorted(GOLDEN.glob("*/[0-9]*")))
def test_recorded_models_are_whole(folder: Path) -> None:
    check_whole(folder)


def test_the_sample_models_are_whole(sample_models: Path) -> None:
    for file in sample_models.glob("*/*/saved_model.pb"):
        check_whole(file.parent)


def test_without_variables(model: Path) -> None:
    check_whole(model)
    shutil.rmtree(model / "variables")
    assert problem(model).startswith(
        f"{model}/variables/variables.index is missing: the graph restores 300 variables from it, v/0/.ATTRIBUTES/"
    )


def test_without_the_data(model: Path) -> None:
    (model / DATA).unlink()
    assert problem(model).startswith(f"{model}/{DATA} is missing: the graph restores 300 variables, v/0/.ATTRIBUTES/")


@pytest.mark.parametrize("name", ["variables/variables.index", DATA])
def test_with_a_pointer_of_git_lfs(model: Path, name: str) -> None:
    (model / name).write_bytes(POINTER)
    assert problem(model).startswith(f"{model}/{name} is a pointer of git-lfs, not the file itself: run git lfs pull ")


def test_a_compressed_index_is_left_to_the_model_server(tmp_path: Path) -> None:
    """TensorFlow can read a compressed index; the example models of TensorFlow Serving have one."""
    model = module_with_variables(tmp_path / "1", (2, 3))
    compress_index(model)
    check_whole(model)


def test_variables_in_several_files(tmp_path: Path) -> None:
    model = module_with_variables(tmp_path / "1", (2, 3), (100,))
    shutil.rmtree(model / "variables")
    copy_made("sharded_variables", save_in_two_files, model / "variables", MAKER)
    check_whole(model)
    last = model / "variables" / "variables.data-00001-of-00002"
    last.unlink()
    assert problem(model).startswith(f"{last} is missing: the graph restores 2 variables")


def save_in_two_files(folder: Path) -> None:
    quiet_tensorflow()
    import tensorflow as tf

    parts = [str(folder / f"part{i}") for i in range(2)]
    for i, (part, shape) in enumerate(zip(parts, [(2, 3), (100,)], strict=True)):
        tf.raw_ops.SaveV2(
            prefix=part,
            tensor_names=[f"v/{i}/.ATTRIBUTES/VARIABLE_VALUE"],
            shape_and_slices=[""],
            tensors=[tf.ones(shape)],
        )
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=str(folder / "variables"))


def test_a_graph_that_is_cut_at_any_place(model: Path) -> None:
    whole = (model / "saved_model.pb").read_bytes()
    for size in range(0, len(whole), len(whole) // 50):
        (model / "saved_model.pb").write_bytes(whole[:size])
        assert str(model / "saved_model.pb") in problem(model)


@pytest.mark.parametrize("name", ["plain", "parts"])
def test_a_graph_of_tensorflow_1_names_what_it_restores(name: str, tmp_path: Path) -> None:
    model = graph_of_tf1(tmp_path / "1")
    shutil.rmtree(model / "variables")
    assert name in problem(model)


def test_without_an_asset(tmp_path: Path) -> None:
    model = with_vocabulary(tmp_path / "1")
    (file,) = (model / "assets").iterdir()
    file.unlink()
    assert problem(model).startswith(f"{file} is missing; ")
    file.write_bytes(POINTER)
    assert problem(model).startswith(f"{file} is a pointer of git-lfs")
