"""The docker command line, aimed at one engine, and what the project's Dockerfile says."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from docker_image.programs import attempt, run

REPOSITORY = Path(__file__).resolve().parents[2]
DOCKERFILE = REPOSITORY / "Dockerfile"
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def argument(name: str) -> str:
    """Return the default of a build argument: the name of a base image, for instance."""
    found = re.search(rf"^ARG {name}=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    if found is None:
        raise KeyError(f"{DOCKERFILE} declares no ARG {name}")
    return found[1]


@dataclass(frozen=True)
class Docker:
    """A docker client and the engine that it speaks to; without ``host`` the user's own."""

    client: str = "docker"
    host: str | None = None

    def run(self, *arguments: str, seconds: float = 600) -> str:
        """Run ``docker ARGUMENTS`` and return what it printed; raise ProgramFailed."""
        return run(*self._command(*arguments), seconds=seconds, environ={"DOCKER_BUILDKIT": "1"})

    def build(self, context: Path, tag: str, *options: str) -> None:
        """Build a context's Dockerfile under a tag; raise ProgramFailed."""
        proxies = [f"--build-arg={name}" for name in PROXIES if name in os.environ]
        self.run("build", "--progress=plain", "--tag", tag, *proxies, *options, str(context), seconds=1200)

    def inspect(self, template: str, name: str) -> str:
        """Return one field of an image or container, by a Go template."""
        return self.run("inspect", "--format", template, name)

    def logs(self, container: str) -> str:
        """Return what a container has written to both of its streams."""
        done = attempt(*self._command("logs", container))
        return done.stdout + done.stderr

    def _command(self, *arguments: str) -> list[str]:
        return [self.client, *(["--host", self.host] if self.host else []), *arguments]
