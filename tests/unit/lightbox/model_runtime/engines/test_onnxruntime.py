"""ONNX Runtime: its results, its refusals, and the choice of ``auto`` between it and OpenVINO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from lightbox.model_runtime.engines import selection as choice
from lightbox.model_runtime.engines.base import Array, Runner
from lightbox.model_runtime.engines.engine import Choice, Engine, Opened, OpenOptions, named
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.onnxruntime.divisions import _GIVE_FLOATS, guard_divisions
from lightbox.model_runtime.engines.race import fastest
from lightbox.model_runtime.engines.selection import Opener
from lightbox.model_runtime.wire.status import Code, StatusError
from support.onnx_models import write, write_dense
from support.parameters import few_of

RUNTIMES = ["onnxruntime", "openvino"]


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
    runner, _ = opened(tmp_path, "onnxruntime")
    direct = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    for rows in (1, 3):
        given = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        np.testing.assert_array_equal(answer(runner, x=given)[0], direct.run(["y"], {"x": given})[0])


def test_strings_are_bytes(tmp_path: Path) -> None:
    node = helper.make_node("Identity", ["text"], ["same"])
    write(tmp_path / "m.onnx", [node], {"text": ("STRING", ["n"])}, {"same": ("STRING", ["n"])})
    given = np.array(["grün".encode(), b""], object)
    assert answer(opened(tmp_path, "auto").runner, text=given)[0].tolist() == given.tolist()


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


@pytest.mark.parametrize("dtype", few_of(["BOOL", "FLOAT", "INT64", "UINT8"], "INT64"))
@pytest.mark.parametrize("name", RUNTIMES)
def test_every_engine_is_timed_with_scalars(tmp_path: Path, name: str, dtype: str) -> None:
    write(tmp_path / "model.onnx", [helper.make_node("Identity", ["x"], ["y"])], {"x": (dtype, [])}, {"y": (dtype, [])})
    assert " ms of CPU per input" in opened(tmp_path, name).choices["serving_default"].reason


LEAST = np.iinfo(np.int32).min
FLOATS = [-np.inf, -3e9, -2, -1, -0.5, -0.0, 0.0, 0.5, 1, 7, np.inf, np.nan]


def dividends(dtype: np.dtype[Any]) -> list[Any]:
    """Return numbers, also as divisors."""
    if dtype.kind == "f":
        return FLOATS
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    return [number for number in (least, least + 1, -3, -2, -1, 1, 2, 3, 7, most) if number >= least and number]


def quotient(of: Any, by: Any, dtype: np.dtype[Any]) -> Any:
    """Return a quotient, of integers rounded towards zero; the smallest integer divided by -1 stays."""
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.divide(dtype.type(of), dtype.type(by))
    rounded = abs(of) // abs(by) * (1 if (of < 0) == (by < 0) else -1)
    return rounded if rounded <= np.iinfo(dtype).max else -rounded


@pytest.mark.parametrize("opset", [9, 11, 21])
@pytest.mark.parametrize("dtype", ["INT32", "INT64", "FLOAT", "DOUBLE", "UINT32"])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_changed_division_has_the_same_results(tmp_path: Path, is_known: bool, dtype: str, opset: int) -> None:
    """A type behind an operation of another domain is unknown."""
    kind = np.dtype(dtype.lower().replace("float", "float32"))
    numbers = dividends(kind)
    onnx_dtype = getattr(TensorProto, dtype)
    rows: Any = helper.make_tensor_value_info("of", onnx_dtype, ["n", 1])
    columns, table = (helper.make_tensor_value_info(name, onnx_dtype, None) for name in ("by", "y"))
    divide = helper.make_node("Div", ["of", "by"], ["y"])
    own = helper.make_function("own", "Divide", ["of", "by"], ["y"], [divide], [helper.make_opsetid("", opset)])
    node = divide if is_known else helper.make_node("Divide", ["of", "by"], ["y"], domain="own")
    sets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    graph = helper.make_graph([node], "made", [rows, columns], [table])
    functions = [] if is_known else [own]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=8, functions=functions), tmp_path / "model.onnx")
    (found,) = answer(
        opened(tmp_path, "onnxruntime").runner, of=np.array(numbers, kind)[:, None], by=np.array(numbers, kind)
    )
    expected = [[quotient(of, by, kind) for by in numbers] for of in numbers]
    np.testing.assert_array_equal(found, np.array(expected, kind))


def divisions(tmp_path: Path, nodes: list[Any], constants: dict[str, Array], opset: int = 17) -> bytes | None:
    """Return the changed content of a file that takes floats x and integers n, None if it stays."""
    inputs: dict[str, Any] = {"x": ("FLOAT", ["a", "b"]), "n": ("INT32", ["a", "b"])}
    last = helper.make_node("Cast", ["q"], ["y"], to=TensorProto.FLOAT)
    write(tmp_path / "model.onnx", [*nodes, last], inputs, {"y": ("FLOAT", None)}, constants, opset)
    return guard_divisions((tmp_path / "model.onnx").read_bytes())


@pytest.mark.parametrize(
    ("of", "by", "stays"),
    [
        ("x", "x", True),
        ("root", "x", True),
        ("n", "two", True),
        ("n", "two_packed", True),
        ("two", "n", True),
        ("n", "less", False),
        ("n", "less_packed", False),
        ("least", "n", False),
        ("n", "n", False),
        ("sizes", "sizes", False),
        ("size", "made", True),
    ],
)
def test_only_divisions_that_may_end_the_process_are_changed(tmp_path: Path, of: str, by: str, stays: bool) -> None:
    constants = {
        "two": np.array([2, 3], np.int32),
        "less": np.array([2, -1], np.int32),
        "least": np.array([LEAST], np.int32),
    }
    packed = [
        helper.make_node("Constant", [], [f"{name}_packed"], value=helper.make_tensor(name, TensorProto.INT32, [2], at))
        for name, at in (("two", [2, 3]), ("less", [2, -1]))
    ]
    nodes = [
        *packed,
        helper.make_node("Sqrt", ["x"], ["root"]),
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Size", ["x"], ["size"]),
        helper.make_node("Constant", [], ["made"], value=numpy_helper.from_array(np.array([4]))),
        helper.make_node("Div", [of, by], ["q"]),
    ]
    assert (divisions(tmp_path, nodes, constants) is None) == stays


def test_a_division_of_an_old_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'q' may be the smallest integer divided by -1.*: expected opset 9 or later"):
        divisions(tmp_path, [helper.make_node("Div", ["n", "n"], ["q"])], {}, opset=8)
    assert divisions(tmp_path, [helper.make_node("Div", ["x", "x"], ["q"])], {}, opset=8) is None
    nodes = [helper.make_node("Selu", ["x"], ["z"]), helper.make_node("Div", ["z", "z"], ["q"])]
    assert divisions(tmp_path, nodes, {}, opset=8) is None


@pytest.mark.parametrize(("limit", "value"), [("_MOST_SECONDS", -1), ("_MOST_FIELDS", 1)])
def test_the_nodes_are_read_within_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(f"{guard_divisions.__module__}.{limit}", value)
    with pytest.raises(ValueError, match=r"its nodes were not read within|a part of it has 1 fields or more"):
        divisions(tmp_path, [helper.make_node("Div", ["x", "x"], ["q"])], {})


def test_a_forest_of_trees_may_have_millions_of_numbers(tmp_path: Path) -> None:
    forest = helper.make_node("TreeEnsembleRegressor", ["x"], ["z"], domain="ai.onnx.ml")
    forest.attribute.add(name="nodes_values", type=onnx.AttributeProto.FLOATS, floats=[0.5] * 1_000_000)
    assert divisions(tmp_path, [forest, helper.make_node("Div", ["n", "n"], ["q"])], {})


def test_all_operations_that_only_give_floats_are_known() -> None:
    floats = {f"tensor({name})" for name in ("float16", "bfloat16", "float", "double")}
    types: dict[str, set[str]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.outputs:
            types.setdefault(schema.name, set()).update(schema.outputs[0].types)
    assert {name for name, found in types.items() if found <= floats} == _GIVE_FLOATS


def test_a_changed_file_finds_its_weights(tmp_path: Path) -> None:
    inputs: dict[str, Any] = {"x": ("INT32", ["n", 4])}
    nodes = [helper.make_node("Div", ["x", "x"], ["one"]), helper.make_node("Add", ["one", "more"], ["y"])]
    more = np.arange(4, dtype=np.int32)
    write(tmp_path / "model.onnx", nodes, inputs, {"y": ("INT32", ["n", 4])}, {"more": more})
    model = onnx.load(tmp_path / "model.onnx")
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (tmp_path / "weights.bin").stat().st_size
    (found,) = answer(loaded(tmp_path), x=np.full((1, 4), 5, np.int32))
    np.testing.assert_array_equal(found, more[None] + 1)


def write_pool(file: Path) -> None:
    """Write a pooling whose last column OpenVINO divides by another number."""
    pool = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1, "count_include_pad": 1}
    node = helper.make_node("AveragePool", ["x"], ["y"], **pool)
    write(file, [node], {"x": ("FLOAT", [1, 3, 4, 4])}, {"y": ("FLOAT", [1, 3, 3, 3])}, opset=19)


def test_auto_takes_it_where_results_differ(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_pool(tmp_path / "m" / "model.onnx")
    hardware, able = Hardware(1, 1, cache_folder=str(tmp_path / "cache")), [named("openvino"), named("onnxruntime")]
    for _ in range(2):  # the second time from the cache
        engine, choice = fastest(str(tmp_path / "m"), able, hardware)
        assert engine.name == "onnxruntime"
        assert "openvino differs: output 'y (made-up input 1)' differs by up to " in choice.reason
        assert "m is served by onnxruntime, which follows the file: openvino differs" in caplog.messages[-1]


def test_openvino_alone_warns_of_what_it_computes_otherwise(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_pool(tmp_path / "model.onnx")
    _, choice = fastest(str(tmp_path), [named("openvino")], Hardware(1, 1))
    assert choice.reason.endswith("it may compute otherwise than the file specifies: AveragePool")
    assert "is served by openvino, which may compute otherwise than the file specifies: AveragePool" in caplog.text


@pytest.mark.parametrize(
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


def test_a_choice_is_between_engines_that_have_the_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without running them, as not every processor has it."""
    write_dense(tmp_path / "model.onnx")
    raced: list[list[str]] = []

    def note(folder: str, able: Sequence[Engine], hardware: Hardware) -> tuple[Engine, Choice]:
        raced.append(sorted(engine.name for engine in able))
        return able[0], Choice(able[0].name, "")

    monkeypatch.setattr(choice, "fastest", note)
    for precision in ("f32", "bf16"):
        Opener("auto", ("serve",), b"", Hardware(2, 2, precision)).choices(str(tmp_path), compares=True, keeps=False)
    assert raced == [RUNTIMES, ["openvino"]]


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
