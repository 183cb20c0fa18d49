"""``make fuzz`` starts: its packages install, and a few hundred inputs find no fault in a codec."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from support import commands
from support.stack import REPOSITORY

pytestmark = pytest.mark.timeout(3600)

TARGET, RUNS = "npy", 500


def test_a_codec_is_fuzzed(tmp_path: Path) -> None:
    commands.output(["make", ".venv/.ready-fuzz"], cwd=REPOSITORY, patience=None)
    command = [sys.executable, "-m", "fuzz", f"--runs={RUNS}", f"--folder={tmp_path}", TARGET]
    reply = commands.output(command, os.environ | {"PYTHONPATH": "scripts:container"}, REPOSITORY, patience=None)
    ((name, inputs, branches),) = re.findall(r"^== (\w+) +([\d,]+) inputs, +(\d+) branches", reply, re.MULTILINE)
    assert name == TARGET
    assert int(inputs.replace(",", "")) >= RUNS
    assert int(branches) > 10
