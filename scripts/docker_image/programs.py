"""Runs other programs to their end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping


class ProgramFailed(Exception):
    """A program did not start, did not end in time, or ended with a code other than 0; the message says which."""


def attempt(
    *command: str, seconds: float | None = None, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program and return how it ended; raise ProgramFailed when it does not start or end in time."""
    variables = os.environ | dict(environ or {})
    try:
        return subprocess.run(command, check=False, env=variables, capture_output=True, text=True, timeout=seconds)  # noqa: S603 - our own commands, no shell
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProgramFailed(f"{command[0]}: {error}") from None


def run(*command: str, seconds: float | None = None, environ: Mapping[str, str] | None = None) -> str:
    """Run a program and return what it printed; raise ProgramFailed with the end of it when it fails."""
    done = attempt(*command, seconds=seconds, environ=environ)
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-30:])
        raise ProgramFailed(f"{' '.join(command[:12])}: exit code {done.returncode}\n{last}")
    return done.stdout.strip()
