"""The pieces of the measurement of costs, with small real networks, and its tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmark import costs, networks
from benchmark.costs import Core, Figures, Way
from lightbox.tools.model_zoo.onnx_file import OnnxGraph

F32 = Way("openvino", "f32")
LINE = "[request] method=POST route=/invocations model=m status=200 receive_ms={0} decode_ms=2 predict_ms=9 total_ms=20"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The folder of a classifier with a convolution, one of each channel alone, and a matrix product."""
    graph = OnnxGraph("pixels", (8, 8, 3), np.dtype(np.float32))
    values = graph.node("Transpose", graph.input, perm=[0, 3, 1, 2])
    for outputs, inputs, is_depthwise in ((4, 3, False), (4, 1, True)):
        kernel = np.ones((outputs, inputs, 3, 3), np.float32)
        values = graph.convolution(values, kernel, np.zeros(outputs, np.float32), 2, is_depthwise, relu6=True)
    scores = graph.classes(values, np.ones((10, 4), np.float32), np.zeros(10, np.float32))
    (tmp_path / "model.onnx").write_bytes(graph.file("scores", scores, 10, {}))
    return tmp_path


def test_operations_are_two_of_each_product_and_sum(small: Path) -> None:
    convolution, of_each_channel, product = 4 * 4 * 4 * 3 * 3 * 3, 4 * 2 * 2 * 3 * 3, 4 * 10
    assert costs.operations(small / "model.onnx") == 2 * (convolution + of_each_channel + product)


@pytest.mark.extended
def test_resnet50_is_that_of_mlperf(tmp_path: Path) -> None:
    """4.09 billion products and sums; one is left to the classes."""
    networks.resnet50(tmp_path)
    assert costs.operations(tmp_path / "model.onnx") == pytest.approx(8.18e9, rel=1e-3)


def test_a_model_alone_and_a_peak_take_time_in_each_engine(small: Path) -> None:
    for way in costs.ways():
        assert costs.alone(small, way, seconds=0) > 0
        assert costs.peak(way, sides=(32,), seconds=0) > 0


def test_stages_are_medians_of_the_log_and_add_up_to_the_processes() -> None:
    stages = costs.medians([LINE.format(each) for each in (0.5, 1.5, 50)])
    assert (stages["receive"], stages["decode"], stages["predict"]) == (1.5, 2, 9)
    assert costs.medians([LINE.format(1), "status=200"])["decode"] == 1
    cpu = {"nginx": 0.5, "gunicorn": 6.0, "model server": 8.0, "supervisor": 0.1}
    found = costs.by_stage(cpu, stages | {"encode": 0.2, "preprocess": 0.7, "postprocess": 0.4}, nothing=1.0)
    assert list(found) == list(costs.STAGES)
    assert found == pytest.approx(
        {"nginx": 0.5, "read, decode": 3.5, "resize": 0.7, "wire": 1.2, "model": 7, "answer": 0.4, "rest": 1.3}
    )
    assert sum(found.values()) == pytest.approx(sum(cpu.values()))


def test_tables_have_shares_and_rates() -> None:
    stages = dict.fromkeys(costs.STAGES, 1.0) | {"model": 4.0}
    lines = costs.page_tables([Figures("net", F32, 0.4e9, 200e9, Core(4.0, 8.0), stages)])
    assert "| net | openvino f32 | 1.00 | 1.00 | 1.00 | 1.00 | 4.00 | 1.00 | 1.00 | 10.0 | 1.00 |" in lines
    assert "| net | openvino f32 | 0.40 | 100 | 200 | 50% | 250 | 125 | 100 |" in lines


def test_a_run_replaces_the_tables_of_the_page() -> None:
    page = costs.PAGE.read_text()
    first = costs.written(page, ["| a |"])
    assert "| a |" in first
    assert costs.written(costs.written(first, ["| b |"]), ["| a |"]) == first
    assert page.partition("<!-- make costs -->")[0] == first.partition("<!-- make costs -->")[0]
