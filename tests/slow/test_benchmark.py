"""One benchmark scenario, run like a user runs it, on a real stack."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import pytest

from benchmark import against, bound, costs, networks, offline, photos
from benchmark.clients import Load
from lightbox.tools.model_zoo import efficientnet_lite0
from support import commands
from support.environments import environment
from support.isolation import own_environ
from support.stack import REPOSITORY

pytestmark = pytest.mark.timeout(3600)


def test_a_quick_scenario_prints_a_table_of_each_experiment() -> None:
    paths = os.pathsep.join(str(REPOSITORY / folder) for folder in ("scripts", "container"))
    command = [sys.executable, "-m", "benchmark", "--quick", "wire"]
    shown = commands.output(command, own_environ() | {"PYTHONPATH": paths}, patience=None)
    rows = re.findall(r"^\| (.+?)(?: \| [\d.]+){3}.* \|$", shown, re.MULTILINE)
    assert len(rows) == len(set(rows)) == 14
    assert re.search(r"^\| raw float32, gRPC \| .* \| 602 kB \|$", shown, re.MULTILINE)
    assert (
        "Inside: mobilenet_v2 in three forms of input, ms (p50): float32 tensor, REST ÷ float32 tensor, gRPC" in shown
    )
    assert "failed" not in shown


def test_the_bound_answers() -> None:
    assert bound.milliseconds(photos.photo(), 1) > 0


def test_costs_have_a_row_for_each_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in own_environ().items():
        monkeypatch.setenv(name, value)
    for name in ("net", networks.NOTHING):
        (tmp_path / name / "1").mkdir(parents=True)
    efficientnet_lite0.save_onnx("uint8", tmp_path / "net" / "1")
    networks.nothing(tmp_path / networks.NOTHING / "1")
    found = costs.figures(tmp_path, rounds=1)
    assert [(one.model, one.way) for one in found] == [("net", way) for way in costs.ways()]
    for one in found:
        assert 0 < one.rate < 2 * one.peak, "nothing computes faster than the peak, but for a slow moment of it"
        assert 0 < one.core.alone < one.core.loaded < one.request
        assert min(one.stages[name] for name in costs.STAGES) > 0


def test_a_checkout_compares_with_itself(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in own_environ().items():
        monkeypatch.setenv(name, value)
    for name in ("BLOCKS", "ROUNDS", "WARM_UP"):
        monkeypatch.setattr(against, name, 1)
    monkeypatch.setattr(against, "LOADS", (Load(20),))
    assert against.main([str(REPOSITORY)]) == 0
    shown = capsys.readouterr().out
    rows = re.findall(r"^\| (.+?)(?: \| [\d.]+){3} \| [\d.]+ to [\d.]+ \|$", shown, re.MULTILINE)
    cpu = ["CPU ms an image, 1 client", "of these above the bound, 1 client"]
    assert rows == [*cpu, "memory of gunicorn, MB", "memory of all processes, MB", "start, s"]


def test_each_offline_method_has_a_row(
    sample_models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def once(way: list[str], folder: Path) -> tuple[float, float]:
        """Leave out the run whose time is subtracted."""
        return measured(way, folder) if folder.name == "5" else (0.0, 0.0)

    environment(".venv-ray")
    measured = offline.measured
    for name, value in own_environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(offline, "ROUNDS", 1)
    monkeypatch.setattr(offline, "measured", once)
    monkeypatch.setattr(offline, "busy", time.perf_counter)  # a few pictures may take no tick of the machine's
    offline.main(5, sample_models / "efficientnet_lite0")
    shown = capsys.readouterr().out
    rows = re.findall(r"^\| (.+?) \| +\d+ \| [\d.]+ \| [\d.]+ \| [\d.]+ \|$", shown, re.MULTILINE)
    assert rows == list(offline.ways(sample_models, "", ""))
