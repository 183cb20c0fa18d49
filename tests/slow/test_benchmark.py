"""One benchmark scenario, run like a user runs it, on a real stack."""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import requests

from benchmark import against, bound, offline, photos, resources, results
from benchmark.clients import Load
from benchmark.servers import LeastStack
from support import commands
from support.environments import environment
from support.isolation import own_environ
from support.stack import REPOSITORY

pytestmark = pytest.mark.timeout(3600)


def test_a_quick_scenario_gives_figures_and_pages(tmp_path: Path) -> None:
    out = tmp_path / "out"
    paths = os.pathsep.join(str(REPOSITORY / folder) for folder in ("scripts", "container"))
    command = [sys.executable, "-m", "benchmark", "--quick", "wire", "--out", str(out)]
    commands.output(command, own_environ() | {"PYTHONPATH": paths}, patience=None)
    document = results.read(out / "results.json")
    inside, from_caller = document["scenarios"][0]["experiments"]
    figures = {variant["name"]: variant for variant in [*inside["variants"], *from_caller["variants"]]}
    assert len(figures) == 14
    assert {variant["errors"] for variant in figures.values()} == {0}
    assert all(sum(variant["cpu_ms"].values()) > 0 for variant in figures.values())
    assert figures["raw float32, gRPC"]["bytes_sent"] == 224 * 224 * 3 * 4
    page = (out / "wire.md").read_text()
    assert re.search(
        r"^- Inside: [\d.]+ ms \(p50\) with float32 tensor, REST; [\d.]+ with float32 tensor, gRPC", page, re.MULTILINE
    )
    assert "\n| raw float32, gRPC | " in page


def test_the_bound_answers() -> None:
    assert bound.milliseconds(photos.photo(), 1) > 0


def test_the_least_stack_answers_as_the_bound(tmp_path: Path) -> None:
    with closing(LeastStack("least").start(tmp_path)) as stack:
        answers = [requests.post(f"{stack.address.url}/invocations", photos.photo(), timeout=60) for _ in range(2)]
        assert {"nginx", "gunicorn", "model server"} <= resources.cpu_seconds(stack.pid).keys()
    for answer in answers:
        np.testing.assert_allclose(answer.json()["predictions"], bound.mobilenet_v2()(photos.photo()), rtol=1e-5)


def test_a_checkout_compares_with_itself(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in own_environ().items():
        monkeypatch.setenv(name, value)
    for name in ("BLOCKS", "ROUNDS", "WARM_UP"):
        monkeypatch.setattr(against, name, 1)
    monkeypatch.setattr(against, "LOADS", (Load(20),))
    assert against.main([str(REPOSITORY)]) == 0
    shown = capsys.readouterr().out
    rows = re.findall(r"^\| (.+?)(?: \| [\d.]+){3} \| [\d.]+ to [\d.]+ \|$", shown, re.MULTILINE)
    assert rows == ["CPU ms an image, 1 client", "memory of gunicorn, MB", "memory of all processes, MB", "start, s"]


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
