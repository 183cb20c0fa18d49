"""A short `make faults`, and a checker that finds what a proxy between callers and stack does wrong."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchmark.scenarios.common import AUTO, BENTOML, FASTAPI, LITSERVE
from faults.checker import check
from faults.history import lines
from support import commands
from support.environments import environment
from support.isolation import own_environ
from support.stack import REPOSITORY

pytestmark = pytest.mark.timeout(3600)
SCENARIOS = {
    "fixed models": "SIGKILL|is full|packet|gone|(nginx worker|gunicorn worker|model server): (no|frozen for)",
    "changing models": "SIGKILL|(master|model server): no",
    "container": "",
    "stand-in": "",
}
"""Regular expressions of faults: each process is killed in both modes, and those with most to do lack something, or are
frozen. tests/e2e/test_hangs.py and test_output_readers.py freeze the others."""
OF_OTHERS = "listens: frozen for"
"""One fault for each server shows that all of them start, answer and are judged."""
LASTING = 0.4
"""Four seconds, for hundreds of requests."""


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_nothing_is_lost(scenario: str, sample_models: Path, tmp_path: Path) -> None:
    paths = os.pathsep.join(str(REPOSITORY / folder) for folder in ("scripts", "container"))
    command = [sys.executable, "-m", "faults", "run", f"--scenarios={scenario}", "--seconds=1", f"--folder={tmp_path}"]
    command += [f"--models={sample_models}", "--patience=6", f"--only={SCENARIOS[scenario]}", f"--lasting={LASTING}"]
    done = commands.run(command, own_environ() | {"PYTHONPATH": paths}, patience=None)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    (history,) = tmp_path.glob("*.jsonl")
    verdict = check(lines(history))
    assert verdict.counts["200"] > 100, done.stdout
    assert verdict.faults or verdict.forbidden, done.stdout


def test_other_servers_have_a_ledger(sample_models: Path, tmp_path: Path) -> None:
    environment(".venv-bench")
    paths = os.pathsep.join(str(REPOSITORY / folder) for folder in ("scripts", "container"))
    command = [sys.executable, "-m", "faults", "others", "--seconds=1", f"--folder={tmp_path}", f"--only={OF_OTHERS}"]
    done = commands.run([*command, f"--models={sample_models}"], own_environ() | {"PYTHONPATH": paths}, patience=None)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    table = [line.strip("| ").split("|") for line in done.stdout.splitlines()[-4:]]
    assert [cells[0].strip() for cells in table] == [AUTO, LITSERVE, BENTOML, FASTAPI]
    lightbox, *_ = table
    assert {cell.strip() for cell in lightbox[3:-1]} == {"0"}, done.stdout
