"""Runs other programs to their end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass


class ProgramFailed(Exception):
    """A program did not start, did not end in time, or ended with a code other than 0; the message says which."""


@dataclass(frozen=True)
class Finished:
    """What a program that has ended left."""

    code: int
    output: str
    errors: str

    @property
    def text(self) -> str:
        """Both streams."""
        return self.output + self.errors


def attempt(*command: str, seconds: float | None = None, environ: Mapping[str, str] | None = None) -> Finished:
    """Run a program and return how it ended; raise ProgramFailed when it does not start or end in time."""
    try:
        done = subprocess.run(  # noqa: S603 - our own commands, no shell
            command,
            check=False,
            env=os.environ | dict(environ or {}),
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProgramFailed(f"{command[0]}: {error}") from None
    return Finished(done.returncode, done.stdout, done.stderr)


def run(*command: str, seconds: float | None = None, environ: Mapping[str, str] | None = None) -> str:
    """Run a program and return what it printed; raise ProgramFailed with the end of it when it fails."""
    done = attempt(*command, seconds=seconds, environ=environ)
    if done.code:
        last = "\n".join(done.text.splitlines()[-30:])
        raise ProgramFailed(f"{' '.join(command[:12])}: exit code {done.code}\n{last}")
    return done.output.strip()
