"""Count the multiplications of a call from the graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.model_files.cost import multiplications
from lightbox.model_files.saved_model import ModelFileError
from support.models import GOLDEN
from support.parameters import each
from support.saved_models import Layer, add_layers, call, network, write

CONVOLUTION: Layer = ("Conv2D", (-1, 10, 20, 64), (3, 3, 8, 64))
WORK = 10 * 20 * 64 * 3 * 3 * 8


@each(
    ("layers", "work"),
    [
        ([CONVOLUTION], WORK),
        ([("DepthwiseConv2dNative", (-1, 10, 20, 16), (3, 3, 8, 2))], 10 * 20 * 16 * 3 * 3),
        ([("MatMul", (-1, 10), (128, 10))], 1280),
        ([("MatMul", (3, 10), (128, 10))], 3 * 1280),
        ([CONVOLUTION, ("Relu", (-1, 10, 20, 64), None), CONVOLUTION], 2 * WORK),
    ],
)
def test_the_layers_of_a_network_are_added_up_for_one_row(tmp_path: Path, layers: list[Layer], work: int) -> None:
    assert multiplications(write(tmp_path, network(*layers))) == work


@pytest.mark.parametrize(
    "layers",
    [
        pytest.param([("Conv2D", (-1, -1, -1, 64), (3, 3, 8, 64))], id="open sides"),
        pytest.param([("Conv2D", None, (3, 3, 8, 64))], id="no shape"),
        pytest.param([("Conv2D", (-1, 10, 20, 64), None)], id="no shape of weights"),
        pytest.param([CONVOLUTION, ("While", None, None)], id="a loop"),
        pytest.param([CONVOLUTION, ("Einsum", (-1, 4), (4, 4))], id="not counted"),
        pytest.param([("Relu", (-1, 4), None)], id="nothing to count"),
    ],
)
def test_what_the_graph_does_not_show_is_not_guessed(tmp_path: Path, layers: list[Layer]) -> None:
    assert multiplications(write(tmp_path, network(*layers))) is None


def test_a_function_counts_each_time_it_is_called_and_signatures_one_at_a_time(tmp_path: Path) -> None:
    meta = network(CONVOLUTION)
    twice = meta.graph_def.library.function.add()
    twice.signature.name = "twice"
    for _ in range(2):
        call(twice.node_def, "inner")
        twice.node_def[-1].name += str(len(twice.node_def))
    call(meta.graph_def.node, "twice")
    assert multiplications(write(tmp_path, meta)) == 2 * WORK


def test_a_graph_of_tensorflow_1_has_no_functions(tmp_path: Path) -> None:
    meta = network()
    add_layers(meta.graph_def.node, [CONVOLUTION])
    assert multiplications(write(tmp_path, meta)) == WORK


def test_functions_that_call_others_twice_are_followed_once(tmp_path: Path) -> None:
    meta = network(CONVOLUTION)
    for level in range(40):
        function = meta.graph_def.library.function.add()
        function.signature.name = f"level{level}"
        for name in ("a", "b"):
            call(function.node_def, f"level{level - 1}" if level else "inner")
            function.node_def[-1].name = name
    call(meta.graph_def.node, "level39")
    assert multiplications(write(tmp_path, meta)) == WORK << 40


def test_a_function_that_calls_itself_is_not_followed_for_ever(tmp_path: Path) -> None:
    meta = network(CONVOLUTION)
    call(meta.graph_def.library.function[1].node_def, "outer")
    assert multiplications(write(tmp_path, meta)) is None


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError):
        multiplications(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"\xff")
    with pytest.raises(ModelFileError, match="is not a SavedModel, or is damaged: "):
        multiplications(tmp_path)


@each("folder", sorted(GOLDEN.glob("*/[0-9]*")))
def test_every_recorded_model_can_be_read(folder: Path) -> None:
    assert multiplications(folder) is None  # small graphs of single operations
