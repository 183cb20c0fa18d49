"""Programs that a test runs to their end."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.patience import PATIENCE

Command = Sequence[str | Path]


def run(
    command: Command, env: Mapping[str, str] | None = None, cwd: Path | None = None, patience: float | None = PATIENCE
) -> subprocess.CompletedProcess[str]:
    """Run a program and keep its output. It may take as long as the test if ``patience`` is None."""
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=patience, check=False)


def output(
    command: Command, env: Mapping[str, str] | None = None, cwd: Path | None = None, patience: float | None = PATIENCE
) -> str:
    """Run a program that must succeed; return its output."""
    done = run(command, env, cwd, patience)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
