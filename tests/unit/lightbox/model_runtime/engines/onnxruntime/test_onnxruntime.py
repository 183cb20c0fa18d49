"""ONNX Runtime: its results, its refusals, and the choice of ``auto`` between it and OpenVINO."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from lightbox.model_runtime.engines import race
from lightbox.model_runtime.engines.base import Array, Runner
from lightbox.model_runtime.engines.engine import Opened, OpenOptions, named
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.race import fastest
from lightbox.model_runtime.engines.selection import Opener
from lightbox.model_runtime.wire.status import Code, StatusError
from support.onnx_models import write, write_dense
from support.parameters import each, few_of

RUNTIMES = ["onnxruntime", "openvino"]
here = pytest.mark.usefixtures("measured_here")


@pytest.fixture
def measured_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure in this process files that both engines read: another process takes a second to start.

    OpenVINO may corrupt the heap where it fails to read one.
    """

    def run(command: Sequence[str], more: int = 0) -> tuple[bytes, str]:
        with redirect_stdout(io.StringIO()) as output:
            race.main(command[-1])
        return output.getvalue().encode(), ""

    monkeypatch.setattr(race, "run", run)


def opened(folder: Path, engine: str) -> Opened:
    return Opener(engine, ("serve",), b"", Hardware(2, 2)).open(str(folder), (1, 3))


def loaded(folder: Path) -> Runner:
    """Return a file's runner without a measurement of its time."""
    return named("onnxruntime").open(str(folder), OpenOptions(Hardware(2, 2), ("serve",))).runner


def answer(runner: Runner, **inputs: Array) -> list[Array]:
    return runner.run(inputs, [info.name for info in runner.signatures["serving_default"].outputs.values()])


def write_det(file: Path) -> None:
    """Write an operation that OpenVINO does not support."""
    node = helper.make_node("Det", ["x"], ["y"])
    write(file, [node], {"x": ("FLOAT", ["n", 2, 2])}, {"y": ("FLOAT", ["n"])})


def write_swish(file: Path) -> None:
    """Write an operation that only OpenVINO has."""
    node = helper.make_node("Swish", ["x"], ["y"], domain="org.openvinotoolkit")
    write(file, [node], {"x": ("FLOAT", ["n", 4])}, {"y": ("FLOAT", ["n", 4])})


def test_its_answers_are_the_runtimes_own(tmp_path: Path) -> None:
    write_dense(tmp_path / "model.onnx")
    runner = loaded(tmp_path)
    direct = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    for rows in (1, 3):
        given = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        np.testing.assert_array_equal(answer(runner, x=given)[0], direct.run(["y"], {"x": given})[0])


def test_strings_are_bytes(tmp_path: Path) -> None:
    node = helper.make_node("Identity", ["text"], ["same"])
    write(tmp_path / "m.onnx", [node], {"text": ("STRING", ["n"])}, {"same": ("STRING", ["n"])})
    given = np.array(["grün".encode(), b""], object)
    assert answer(opened(tmp_path, "auto").runner, text=given)[0].tolist() == given.tolist()


@each("classes", [(-3, 7, 2), ("b", "a", "ä")])
def test_maps_of_scores_are_columns(classes: tuple[int | str, ...], tmp_path: Path) -> None:
    """As converters of scikit-learn and LightGBM end a classifier."""
    kind = "ints" if isinstance(classes[0], int) else "strings"
    keys = {"classlabels_int64s" if kind == "ints" else "classlabels_strings": classes}
    scores = {"coefficients": [1.0, 0, 0, 1, 1, 1], "intercepts": [0.0, 0, 0], f"classlabels_{kind}": classes}
    domain = "ai.onnx.ml"
    nodes = [
        helper.make_node("LinearClassifier", ["x"], ["label", "p"], domain=domain, post_transform="SOFTMAX", **scores),
        helper.make_node("ZipMap", ["p"], ["probabilities"], domain=domain, **keys),
    ]
    names, file = ("INT64" if kind == "ints" else "STRING", ["n"]), tmp_path / "model.onnx"
    write(file, nodes, {"x": ("FLOAT", ["n", 2])}, {"label": names, "p": ("FLOAT", ["n", 3])})
    model = onnx.load(file)
    model.opset_import.append(helper.make_opsetid(domain, 1))
    keyed = helper.make_map_type_proto(getattr(onnx.TensorProto, names[0]), helper.make_tensor_type_proto(1, None))
    maps = helper.make_value_info("probabilities", helper.make_sequence_type_proto(keyed))
    model.graph.output.append(maps)
    onnx.save(model, file)
    runner = loaded(tmp_path)
    assert [dim.size for dim in runner.signatures["serving_default"].outputs["probabilities"].tensor_shape.dim] == [
        -1,
        3,
    ]
    for rows in (2, 0):
        given = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
        found, expected = runner.run({"x": given}, ["probabilities", "p"])
        assert np.array_equal(found, expected)


@here
def test_inputs_that_do_not_fit_are_the_callers_error(tmp_path: Path) -> None:
    write_dense(tmp_path / "model.onnx")
    for engine in RUNTIMES:
        runner = opened(tmp_path, engine).runner
        for given in (np.zeros((1, 3), np.float32), np.zeros((1, 4), np.int32), np.zeros(4, np.float32)):
            with pytest.raises(StatusError) as raised:
                answer(runner, x=given)
            assert raised.value.code == Code.INVALID_ARGUMENT


def test_auto_times_both_and_takes_the_faster(tmp_path: Path) -> None:
    write_dense(tmp_path / "model.onnx")
    choice = opened(tmp_path, "auto").choices["serving_default"]
    winner, other = choice.engine, next(name for name in RUNTIMES if name != choice.engine)
    taken, _, rest = choice.reason.partition(" ms of CPU per input; ")
    assert winner in RUNTIMES
    assert rest.startswith(f"{other} ")
    assert float(taken) <= float(rest.split()[1])


@pytest.mark.parametrize(("maker", "reader", "why"), [(write_det, 0, "Det"), (write_swish, 1, "Swish")])
def test_what_one_cannot_read_the_other_serves(
    tmp_path: Path, maker: Callable[[Path], None], reader: int, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    maker(tmp_path / "model.onnx")
    winner, other = RUNTIMES[reader], RUNTIMES[1 - reader]
    with pytest.raises(StatusError, match=why):
        opened(tmp_path, other)
    assert opened(tmp_path, "auto").choices["serving_default"].engine == winner
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line.startswith(f"{tmp_path} is served by {winner}, as other engines do not read it: {other}: ")
    assert why in line


@here
def test_auto_takes_it_for_integers_of_callers(tmp_path: Path) -> None:
    """OpenVINO computes 64-bit integers in 32 bits, and does not check the range of positions."""
    inputs: dict[str, Any] = {"x": ("INT64", ["n", 4])}
    node = helper.make_node("Add", ["x", "x"], ["y"])
    write(tmp_path / "model.onnx", [node], inputs, {"y": ("INT64", ["n", 4])})
    runner, choices = opened(tmp_path, "auto")
    assert choices["serving_default"].engine == "onnxruntime"
    assert "it keeps the model's integer inputs exact" in choices["serving_default"].reason
    given = np.full((1, 4), 1 << 40, np.int64)
    np.testing.assert_array_equal(answer(runner, x=given)[0], given * 2)


@here
def test_without_the_package_the_other_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_dense(tmp_path / "model.onnx")
    monkeypatch.setattr(type(named("onnxruntime")), "package", "not_there")
    assert opened(tmp_path, "auto").choices["serving_default"].engine == "openvino"
    with pytest.raises(StatusError, match="engine onnxruntime: the package not_there is not installed"):
        opened(tmp_path, "onnxruntime")


def test_a_damaged_file_has_each_ones_reason(tmp_path: Path) -> None:
    write_dense(tmp_path / "model.onnx")
    file = tmp_path / "model.onnx"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(StatusError, match=r"no engine reads the model in .*openvino: .*; onnxruntime: "):
        opened(tmp_path, "auto")


@here
@pytest.mark.parametrize("dtype", few_of(["FLOAT", "INT64"], "INT64"))
@pytest.mark.parametrize("name", RUNTIMES)
def test_every_engine_is_timed_with_scalars(tmp_path: Path, name: str, dtype: str) -> None:
    write(tmp_path / "model.onnx", [helper.make_node("Identity", ["x"], ["y"])], {"x": (dtype, [])}, {"y": (dtype, [])})
    assert " ms of CPU per input" in opened(tmp_path, name).choices["serving_default"].reason


def write_resize(file: Path) -> None:
    """Write a resize whose filter OpenVINO leaves out on every processor: its pooling differs on x86-64 alone."""
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear", antialias=1)
    constants = {"scales": np.array([1, 1, 0.5, 0.5], np.float32)}
    write(file, [node], {"x": ("FLOAT", [1, 3, 8, 8])}, {"y": ("FLOAT", [1, 3, 4, 4])}, constants, opset=19)


@here
def test_auto_takes_it_where_results_differ(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_resize(tmp_path / "m" / "model.onnx")
    hardware, able = Hardware(1, 1, cache_folder=str(tmp_path / "cache")), [named("openvino"), named("onnxruntime")]
    for _ in range(2):  # the second time from the cache
        engine, choice = fastest(str(tmp_path / "m"), able, hardware)
        assert engine.name == "onnxruntime"
        assert "openvino differs: output 'y (made-up input 1)' differs by up to " in choice.reason
        assert "m is served by onnxruntime, which follows the file: openvino differs" in caplog.messages[-1]


@here
def test_openvino_alone_warns_of_what_it_computes_otherwise(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_resize(tmp_path / "model.onnx")
    _, choice = fastest(str(tmp_path), [named("openvino")], Hardware(1, 1))
    assert choice.reason.endswith("it may compute otherwise than the file specifies: Resize")
    assert "is served by openvino, which may compute otherwise than the file specifies: Resize" in caplog.text


@each(
    ("operation", "attributes", "departs"),
    [
        ("MaxPool", {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}, True),
        ("MaxPool", {"kernel_shape": [2, 2], "ceil_mode": 1}, False),
        ("MaxPool", {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}, False),
        ("LpPool", {"kernel_shape": [2, 2], "ceil_mode": 1}, True),
        ("Resize", {"antialias": 1}, True),
        ("Resize", {"antialias": 0, "mode": "cubic"}, False),
    ],
)
def test_what_openvino_computes_otherwise(
    tmp_path: Path, operation: str, attributes: dict[str, Any], departs: bool
) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["z"]), helper.make_node(operation, ["z"], ["y"], **attributes)]
    write(tmp_path / "model.onnx", nodes, {"x": ("INT64", [1])}, {"y": ("FLOAT", [1])})
    expected = ["the input 'x' in 32 bits", *([operation] if departs else [])]
    assert named("openvino").departures(tmp_path) == expected


@here
@pytest.mark.parametrize("engine", RUNTIMES)
def test_inputs_have_as_many_rows_as_their_file_says(tmp_path: Path, engine: str) -> None:
    """An empty one would make ONNX Runtime read other memory."""
    nodes = [helper.make_node("Concat", ["a", "b"], ["y"], axis=1), helper.make_node("Identity", ["c"], ["z"])]
    inputs: dict[str, tuple[str, list[int | str]]] = {
        "a": ("FLOAT", ["n", 3]),
        "b": ("FLOAT", ["n", 2]),
        "c": ("FLOAT", ["m", 2]),
    }
    outputs: dict[str, tuple[str, list[int | str]]] = {"y": ("FLOAT", ["n", 5]), "z": ("FLOAT", ["m", 2])}
    write(tmp_path / "model.onnx", nodes, inputs, outputs)
    runner = opened(tmp_path, engine).runner
    one, two, three = (np.ones((rows, 2), np.float32) for rows in (1, 2, 3))
    found = answer(runner, a=np.ones((2, 3), np.float32), b=two, c=three)
    assert {array.shape for array in found} == {(2, 5), (3, 2)}
    for a, b, c, said in (
        (np.ones((2, 3), np.float32), three, three, "expected the same number of rows, got 2 of a and 3 of b"),
        (np.ones((1, 3), np.float32), one, np.zeros((0, 2), np.float32), "c is empty"),
    ):
        with pytest.raises(StatusError, match=said) as caught:
            answer(runner, a=a, b=b, c=c)
        assert caught.value.code is Code.INVALID_ARGUMENT


def test_a_cache_that_is_empty_at_first_is_an_input(tmp_path: Path) -> None:
    """It has a row for each row of the other inputs, and no steps yet."""
    node = helper.make_node("Concat", ["past", "x"], ["present"], axis=1)
    inputs: dict[str, Any] = {"past": ("FLOAT", ["n", "p", 4]), "x": ("FLOAT", ["n", "s", 4])}
    write(tmp_path / "model.onnx", [node], inputs, {"present": ("FLOAT", ["n", "t", 4])})
    given = np.arange(8, dtype=np.float32).reshape(1, 2, 4)
    (found,) = answer(loaded(tmp_path), past=np.zeros((1, 0, 4), np.float32), x=given)
    np.testing.assert_array_equal(found, given)
