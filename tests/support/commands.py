"""Programs that a test runs to their end."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.patience import PATIENCE

Command = Sequence[str | Path]


def run(
    command: Command, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program and keep its output."""
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE, check=False)


def output(command: Command, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a program that must succeed; return its output."""
    done = run(command, env, cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
