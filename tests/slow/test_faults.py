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
FEW = "SIGKILL|frozen for|disk is full|is full|packet|descriptors|gone|reader"
"""Faults without the long ones."""


@pytest.mark.parametrize("scenario", ["fixed models", "changing models", "container", "stand-in"])
def test_nothing_is_lost(scenario: str, sample_models: Path, tmp_path: Path) -> None:
    paths = os.pathsep.join(str(REPOSITORY / folder) for folder in ("scripts", "container"))
    command = [sys.executable, "-m", "faults", "run", f"--scenarios={scenario}", "--seconds=1", f"--folder={tmp_path}"]
    command += [f"--models={sample_models}", "--patience=6", *([f"--only={FEW}"] if "models" in scenario else [])]
    done = commands.run(command, own_environ() | {"PYTHONPATH": paths}, patience=None)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    (history,) = tmp_path.glob("*.jsonl")
    verdict = check(lines(history))
    assert verdict.counts["200"] > 100, done.stdout
    assert verdict.faults or verdict.forbidden, done.stdout
