"""One scenario of the benchmark, as a user runs it, on a real stack."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmark import results
from support.stack import REPOSITORY

pytestmark = pytest.mark.timeout(3600)


def test_a_quick_scenario_gives_figures_and_pages(tmp_path: Path) -> None:
    out = tmp_path / "out"
    paths = os.pathsep.join(str(REPOSITORY / folder) for folder in ("scripts", "container"))
    command = [sys.executable, "-m", "benchmark", "--quick", "wire", "--out", str(out)]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = results.read(out / "results.json")
    variants = document["scenarios"][0]["experiments"][0]["variants"]
    assert len(variants) == 7
    figures = {variant["name"]: variant for variant in variants}
    assert {variant["errors"] for variant in variants} == {0}
    grpc, rest = figures["float32 tensor, gRPC"]["hops"], figures["float32 tensor, REST"]["hops"]
    assert 602_112 < grpc["sidecar-model server gRPC"][0] < 604_000  # 224 x 224 x 3 floats and little else
    assert rest["sidecar-model server REST"][0] > 1_000_000
    assert (out / "wire.md").is_file()
    assert (out / "plots" / "wire_forms_stages.svg").is_file()
