"""Made-up inputs show which outputs have a row for each row of the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from lightbox.model_runtime.engines.base import Array, Runner
from lightbox.model_runtime.engines.engine import OpenOptions, named
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.samples import mark_rows
from lightbox.model_runtime.wire.dtypes import OWN_ROWS
from support.onnx_models import write, write_patches
from support.parameters import each


def loaded(folder: Path) -> Runner:
    return named("openvino").open(str(folder), OpenOptions(Hardware(1, 1), ("serve",))).runner


def first_dimension(runner: Runner) -> tuple[int, str]:
    (info,) = runner.signatures["serving_default"].outputs.values()
    return info.tensor_shape.dim[0].size, info.tensor_shape.dim[0].name


@pytest.mark.parametrize(
    ("batch", "counts", "expected"), [(1, False, (1, "m")), ("n", False, (-1, "m")), (1, True, (-1, OWN_ROWS))]
)
def test_a_row_that_an_exporter_has_lost_is_declared(
    tmp_path: Path, batch: int | str, counts: bool, expected: tuple[int, str]
) -> None:
    if counts:
        write_patches(tmp_path / "model.onnx", batch)
    else:
        node = helper.make_node("Relu", ["x"], ["y"])
        write(tmp_path / "model.onnx", [node], {"x": ("FLOAT", [batch, 4])}, {"y": ("FLOAT", ["m", 4])})
    runner = loaded(tmp_path)
    mark_rows(runner)
    assert first_dimension(runner) == expected


@each(("wanted", "sides"), [(1, [224, 224]), (32, [224, 224, 32, 32])])
def test_sides_after_the_first_one_that_fits_are_not_tried(wanted: int, sides: list[int], tmp_path: Path) -> None:
    node = helper.make_node("Add", ["x", "columns"], ["y"])
    columns = {"columns": np.zeros(wanted, np.float32)}
    write(
        tmp_path / "model.onnx",
        [node],
        {"x": ("FLOAT", ["n", 3, "h", "w"])},
        {"y": ("FLOAT", ["m", 3, "h", "w"])},
        columns,
    )
    runner = loaded(tmp_path)

    class Counting:
        signatures = runner.signatures

        def run(self, feeds: Mapping[str, Array], fetches: Sequence[str], options: bytes = b"") -> list[Array]:
            tried.append(feeds["x"].shape[3])
            return runner.run(feeds, fetches, options)

    tried: list[int] = []
    mark_rows(Counting())  # type: ignore[arg-type]
    assert tried == sides
