"""The image into the account's Elastic Container Registry."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable

from lightbox.base.telemetry import say
from lightbox.tools.deploy.aws_calls import Aws, Refused

RunDocker = Callable[[list[str], str | None], None]
"""Runs a docker command with a text for its standard input."""


def run_docker(command: list[str], text: str | None = None) -> None:
    """Run a docker command; raise Refused when it fails."""
    try:
        subprocess.run(command, input=text, text=True, check=True)  # noqa: S603 - our own command, no shell
    except (OSError, subprocess.CalledProcessError) as error:
        raise Refused(f"{' '.join(command)}: {error}") from None


def push(aws: Aws, image: str, repository: str, tag: str, docker: RunDocker = run_docker) -> str:
    """Push a local image and return its name in the registry; the repository is made if it is not there."""
    host = f"{aws.account()}.dkr.ecr.{aws.region}.amazonaws.com"
    request = {"repositoryName": repository, "imageScanningConfiguration": {"scanOnPush": True}}
    aws.ensure(
        f"repository {repository}",
        lambda: aws.find("ecr", "describe_repositories", repositoryNames=[repository]),
        lambda: aws.call("ecr", "create_repository", **request),
    )
    name = f"{host}/{repository}:{tag}"
    password = _password(aws)
    commands: list[tuple[list[str], str | None]] = [
        (["docker", "login", "--username", "AWS", "--password-stdin", host], password),
        (["docker", "tag", image, name], None),
        (["docker", "push", name], None),
    ]
    for command, text in commands:
        print(f"-- {' '.join(command)}", flush=True)
        if not aws.dry_run:
            docker(command, text)
    say.progress(f"image: {name}")
    return name


def _password(aws: Aws) -> str:
    tokens = aws.call("ecr", "get_authorization_token").get("authorizationData", [])
    return base64.b64decode(tokens[0]["authorizationToken"]).decode().partition(":")[2] if tokens else ""
