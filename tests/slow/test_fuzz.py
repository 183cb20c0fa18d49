"""``make fuzz`` begins: its packages install, and fuzzing of two codecs finds nothing in some seconds."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from support.stack import REPOSITORY

TARGETS = ("npy", "native_resize")


def test_codecs_are_fuzzed() -> None:
    ready = subprocess.run(["make", ".venv/.ready-fuzz"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ready.returncode == 0, ready.stderr
    command = [sys.executable, "-m", "fuzz", "--seconds=10", *TARGETS]
    environ = os.environ | {"PYTHONPATH": "scripts:container"}
    done = subprocess.run(command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = re.findall(r"^== (\w+) +([\d,]+) inputs, +(\d+) branches", done.stdout, re.MULTILINE)
    assert [name for name, *_ in lines] == [*TARGETS]
    assert all(int(inputs.replace(",", "")) > 100 and int(branches) > 10 for _, inputs, branches in lines)
