"""``lightbox deploy``: a model to SageMaker, by CloudFormation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import click
from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from lightbox.base.telemetry import say
from lightbox.tools.deploy.package import package, upload
from lightbox.tools.deploy.stacks import Stack
from lightbox.tools.deploy.templates import TEMPLATES, checked, kind_and_environment, with_environment


class AwsCommand(click.Command):
    """A command with an argument ``client``; errors of AWS are a sentence and exit code 1."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(click.Option(["--region"], help="AWS region; by default that of the environment."))

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        try:
            ctx.params["client"] = boto3.Session(region_name=ctx.params.pop("region")).client
            return super().invoke(ctx)
        except NoCredentialsError:
            problem = "no AWS credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        except (Boto3Error, BotoCoreError, ClientError, OSError) as error:
            problem = str(error)
        if "No updates are to be performed" in problem:
            return say.progress("nothing changes")
        raise click.ClickException(problem)


@click.group("deploy", epilog="Example: lightbox deploy create digits Image=IMAGE ModelData=S3_URL Role=ARN")
def command() -> None:
    """Deploy a model to SageMaker, as a stack of CloudFormation.

    create and update take the parameters of deploy/sagemaker/endpoint.yaml, as PARAMETER=VALUE.
    """


command.command_class = AwsCommand


def _pairs(_: click.Context, argument: click.Parameter, words: tuple[str, ...]) -> dict[str, str]:
    """Return NAME=VALUE words as a dictionary; raise click.BadParameter."""
    found: dict[str, str] = {}
    for name, equals, value in (word.partition("=") for word in words):
        if not (name and equals) or name in found:
            raise click.BadParameter(f"expected {name or 'NAME'}=VALUE once, got {name}{equals}{value}")
        found[name] = value
    return found


def _takes_parameters(function: Callable[..., None]) -> Callable[..., None]:
    name = click.argument("name")
    values = click.argument("values", nargs=-1, callback=_pairs, metavar="[PARAMETER=VALUE]...")
    env = click.option("--env", multiple=True, callback=_pairs, metavar="NAME=VALUE", help="Setting; repeatable.")
    return name(values(env(function)))


@command.command("package")
@click.argument("models", type=click.Path(path_type=Path))
@click.option("--code", type=click.Path(path_type=Path), help="Folder with inference.py, which becomes code/.")
@click.option("--out", type=click.Path(path_type=Path), default="build/model.tar.gz", show_default=True, help="File.")
@click.option("--to", metavar="S3_FOLDER", help="Folder to upload it to.")
def run_package(client: Any, models: Path, code: Path | None, out: Path, to: str | None) -> None:
    """Write model.tar.gz from a folder of models; with --to, upload it and print its URL."""
    archive = package(models, code, out)
    if to:
        click.echo(upload(client("s3"), archive, to))


@command.command("create")
@_takes_parameters
@click.option("--template", type=click.Choice(TEMPLATES), default="endpoint", show_default=True, help="Kind of stack.")
def run_create(client: Any, name: str, values: dict[str, str], env: dict[str, str], template: str) -> None:
    """Create the stack NAME, and its endpoint with this name."""
    body = with_environment(template, env)
    Stack(client("cloudformation"), name).create(body, checked(body, values, {}))


@command.command("update")
@_takes_parameters
def run_update(client: Any, name: str, values: dict[str, str], env: dict[str, str]) -> None:
    """Change parameters or settings of the stack NAME. The others keep their values; --env NAME= removes one."""
    stack = Stack(client("cloudformation"), name)
    template, settings = kind_and_environment(stack.template())
    body = with_environment(template, {setting: value for setting, value in (settings | env).items() if value})
    stack.update(body, checked(body, values, stack.parameters()))


@command.command("status")
@click.argument("name")
def run_status(client: Any, name: str) -> None:
    """Print the parameters of the stack NAME and the events of its last operation; wait until that ends."""
    stack = Stack(client("cloudformation"), name)
    for parameter, value in stack.parameters().items():
        click.echo(f"{parameter}={value}")
    stack.follow(stack.id(), set())


@command.command("delete")
@click.argument("name")
@click.confirmation_option(prompt="Delete the stack and its endpoint?", help="Do not ask for confirmation.")
def run_delete(client: Any, name: str) -> None:
    """Delete the stack NAME with its endpoint; archives and images stay."""
    Stack(client("cloudformation"), name).delete()
