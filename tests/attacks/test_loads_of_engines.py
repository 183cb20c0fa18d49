"""Small files that an engine loads for hours: others load and predict meanwhile, and the next try costs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from support.loading import load
from support.onnx_models import write, write_dense
from support.patience import poll
from support.stack import Stack, running

SECONDS = 20
"""The limit of a load; a child may try a file for half of it."""


def write_endless(path: Path) -> None:
    """Write products of constants, which an engine computes as it loads them."""
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [0.001])
    nodes = [
        helper.make_node("ConstantOfShape", ["sizes"], ["c0"], value=one),
        *(helper.make_node("MatMul", [f"c{number}", "c0"], [f"c{number + 1}"]) for number in range(1000)),
        helper.make_node("ReduceSum", ["c1000"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    sizes = {"sizes": np.array([4000, 4000])}
    write(path, nodes, {"x": ("FLOAT", ["n", 4])}, {"y": ("FLOAT", ["n", 4])}, sizes)


@pytest.fixture
def loading_stack(tmp_path: Path) -> Iterator[Stack]:
    root = tmp_path / "models"
    for name in ("good", "other"):
        write_dense(root / name / "1" / "model.onnx")
    write_endless(root / "endless" / "1" / "model.onnx")
    environ = {"SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_TFS_WAIT_TIME_SECONDS": str(SECONDS)}
    with running(root, tmp_path / "run", **environ, LIGHTBOX_ENGINE="onnxruntime") as found:
        yield found


@pytest.mark.extended
def test_a_file_that_loads_for_hours_stops_no_one_else(loading_stack: Stack) -> None:
    def use(target: str) -> tuple[int, str]:
        body = b'{"instances": [[1, 2, 3, 4]]}'
        headers = {"Content_Type": "application/json", "X_Amzn_SageMaker_Target_Model": target}
        response = loading_stack.invoke(body, "/endpoints/any/invocations", **headers)
        return response.status_code, response.text

    assert load(loading_stack, "good", "good").status_code == 200
    (server,) = loading_stack.processes("model_runtime.server")
    with ThreadPoolExecutor(2) as pool:
        endless = pool.submit(use, "endless")
        loading_stack.wait_until(lambda: bool(loading_stack.processes("engines.race")))
        other = pool.submit(load, loading_stack, "other", "other")
        answered = 0
        for _ in poll(pause=0.2):
            if endless.done():
                break
            assert use("good")[0] == 200
            answered += 1
        assert answered > 5
        assert (other.result().status_code, other.result().text) == (200, other.result().text)
    status, text = endless.result()
    assert status == 424
    assert re.search(r"onnxruntime: its process took more than (10|9\.\d+) s", text), text
    assert "it is tried again after 600 s" in use("endless")[1]
    assert loading_stack.processes("model_runtime.server") == [server]
    for line in loading_stack.lines_with("Loading servable: {name: endless version: 1} failed", 2):
        assert "[model_server] E Loading" in line
