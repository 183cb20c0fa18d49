"""``make fuzz`` starts: its packages install, and a few hundred inputs find no fault in two codecs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.stack import REPOSITORY

pytestmark = pytest.mark.timeout(3600)

TARGETS = ("npy", "native_resize")
RUNS = 500


def test_codecs_are_fuzzed(tmp_path: Path) -> None:
    ready = subprocess.run(["make", ".venv/.ready-fuzz"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ready.returncode == 0, ready.stderr
    command = [sys.executable, "-m", "fuzz", f"--runs={RUNS}", f"--folder={tmp_path}", *TARGETS]
    environ = os.environ | {"PYTHONPATH": "scripts:container"}
    done = subprocess.run(command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = re.findall(r"^== (\w+) +([\d,]+) inputs, +(\d+) branches", done.stdout, re.MULTILINE)
    assert [name for name, *_ in lines] == [*TARGETS]
    assert all(int(inputs.replace(",", "")) >= RUNS and int(branches) > 10 for _, inputs, branches in lines)
