"""Runs programs to completion, including the docker command line; reads the project's Dockerfile."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DOCKERFILE = REPOSITORY / "Dockerfile"
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


class ProgramFailed(Exception):
    """A program did not start, timed out, or ended with a nonzero code; the message says which."""


def attempt(
    *command: str, seconds: float | None = None, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program and return its result; raise ProgramFailed when it does not start or times out."""
    variables = os.environ | dict(environ or {})
    try:
        return subprocess.run(command, check=False, env=variables, capture_output=True, text=True, timeout=seconds)  # noqa: S603 - our own commands, no shell
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProgramFailed(f"{command[0]}: {error}") from None


def run(*command: str, seconds: float | None = None, environ: Mapping[str, str] | None = None) -> str:
    """Run a program and return its output; raise ProgramFailed with the end of the output when it fails."""
    done = attempt(*command, seconds=seconds, environ=environ)
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-30:])
        raise ProgramFailed(f"{' '.join(command[:12])}: exit code {done.returncode}\n{last}")
    return done.stdout.strip()


def argument(name: str) -> str:
    """Return the default of a build argument: the name of a base image, for instance."""
    found = re.search(rf"^ARG {name}=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    if found is None:
        raise KeyError(f"{DOCKERFILE} declares no ARG {name}")
    return found[1]


@dataclass(frozen=True)
class Engine:
    """A docker client and its engine, by default the user's own.

    The options are the extra ones that builds and containers need on this engine.
    """

    client: tuple[str, ...] = ("docker",)
    build_options: tuple[str, ...] = ()
    run_options: tuple[str, ...] = ()
    real_model_server: bool = True

    def run(self, *arguments: str, seconds: float = 600) -> str:
        """Run ``docker ARGUMENTS`` and return what it printed; raise ProgramFailed."""
        return run(*self.client, *arguments, seconds=seconds, environ={"DOCKER_BUILDKIT": "1"})

    def can(self, *arguments: str, seconds: float = 600) -> bool:
        """Whether ``docker ARGUMENTS`` succeeds."""
        try:
            self.run(*arguments, seconds=seconds)
        except ProgramFailed:
            return False
        return True

    def build(self, tag: str, *options: str, context: Path = REPOSITORY) -> None:
        """Build a context's Dockerfile, unchanged, under a tag; raise ProgramFailed."""
        proxies = [f"--build-arg={name}" for name in PROXIES if name in os.environ]
        options = (*proxies, *self.build_options, *options)
        self.run("build", "--progress=plain", "--tag", tag, *options, str(context), seconds=1200)

    def inspect(self, template: str, name: str) -> str:
        """Return one field of an image or container, by a Go template."""
        return self.run("inspect", "--format", template, name)
