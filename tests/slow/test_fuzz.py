"""``make fuzz`` starts: its packages install, and a few hundred inputs find no fault in a codec."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.stack import REPOSITORY

pytestmark = pytest.mark.timeout(3600)

TARGET, RUNS = "npy", 500


def test_a_codec_is_fuzzed(tmp_path: Path) -> None:
    ready = subprocess.run(["make", ".venv/.ready-fuzz"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ready.returncode == 0, ready.stderr
    command = [sys.executable, "-m", "fuzz", f"--runs={RUNS}", f"--folder={tmp_path}", TARGET]
    environ = os.environ | {"PYTHONPATH": "scripts:container"}
    done = subprocess.run(command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    ((name, inputs, branches),) = re.findall(r"^== (\w+) +([\d,]+) inputs, +(\d+) branches", done.stdout, re.MULTILINE)
    assert name == TARGET
    assert int(inputs.replace(",", "")) >= RUNS
    assert int(branches) > 10
