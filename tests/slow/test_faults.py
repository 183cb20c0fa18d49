"""A short `make faults`, and a checker that finds what a proxy between callers and stack does wrong."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from faults.checker import check
from faults.history import lines
from support import commands
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
