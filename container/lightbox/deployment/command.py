"""``lightbox deploy``: the way of a model onto SageMaker."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import click
from botocore.exceptions import BotoCoreError, ClientError

from lightbox.deployment import batch, steps
from lightbox.deployment.aws import Aws, Refused
from lightbox.deployment.components import Size
from lightbox.deployment.deletion import delete
from lightbox.deployment.package import package, upload
from lightbox.deployment.plan import Kind, Plan
from lightbox.deployment.push import push
from lightbox.deployment.scaling import Scaling

Decorator = Callable[[Callable[..., None]], Callable[..., None]]
INTERRUPTED = 130


class AwsCommand(click.Command):
    """A command with an argument ``aws``; errors of AWS or a plan are a sentence and exit code 1."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += [
            click.Option(["--region"], help="AWS region; else that of the environment."),
            click.Option(["--dry-run"], is_flag=True, help="Print the requests, make none."),
        ]

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        try:
            ctx.params["aws"] = Aws(ctx.params.pop("region"), dry_run=ctx.params.pop("dry_run"))
            return super().invoke(ctx)
        except Refused as problem:
            raise click.ClickException(str(problem)) from None
        except (ClientError, BotoCoreError, OSError) as problem:
            raise click.ClickException(f"{type(problem).__name__}: {problem}") from None
        except KeyboardInterrupt:
            click.echo("interrupted: the started operations continue; run the same command to wait for them", err=True)
            return INTERRUPTED


class OrderedGroup(click.Group):
    """Commands in the order in which they are declared."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return their names."""
        return list(self.commands)


@click.group(
    "deploy",
    cls=OrderedGroup,
    epilog="Example: lightbox deploy endpoint cats --image IMAGE --model-data S3_URL --role ARN",
)
def command() -> None:
    """Bring a model onto SageMaker.

    Each step prints its result and creates nothing twice. --dry-run prints the requests and needs no account.
    """


command.command_class = AwsCommand


def _all(*decorators: Decorator) -> Decorator:
    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


PLAN = _all(
    click.argument("name"),
    click.option("--image", required=True, help="The image's name in the registry, as printed by push."),
    click.option("--role", required=True, help="ARN of the execution role (deploy/iam/)."),
    click.option("--model-data", metavar="S3_URL", help="s3://…/model.tar.gz, as printed by package."),
    click.option("--env", multiple=True, metavar="NAME=VALUE", help="A setting; repeatable."),
    click.option("--instance-type", default="ml.c6i.xlarge", show_default=True),
    click.option("--instances", type=int, default=1, show_default=True),
    click.option("--output", metavar="S3_FOLDER", help="s3://bucket/folder for answers."),
    click.option(
        "--concurrency",
        type=int,
        default=10,
        show_default=True,
        help="Requests at once: serverless, asynchronous, batch.",
    ),
)
"""What endpoint, update and transform share."""

KIND = _all(
    click.option("--serverless", is_flag=True, help="A serverless endpoint."),
    click.option("--asynchronous", is_flag=True, help="An endpoint that takes objects of S3."),
    click.option("--startup-seconds", type=int, default=480, help="Until the container must answer /ping."),
    click.option(
        "--memory-mb", type=click.Choice(list(range(1024, 6145, 1024))), default=4096, help="Serverless only."
    ),
    click.option(
        "--container",
        multiple=True,
        metavar="HOSTNAME=S3_URL",
        help="A container with its own archive; 2 to 15 of them, and callers name one.",
    ),
    click.option("--multi-model", is_flag=True, help="--model-data is a folder; callers name an archive."),
)
"""How the endpoint takes requests, and how it serves several archives."""


@command.command("package")
@click.argument("models", type=click.Path(path_type=Path))
@click.option(
    "--code", type=click.Path(path_type=Path), help="The folder that becomes code/: inference.py and the rest."
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("build/model.tar.gz"), show_default=True)
@click.option("--to", metavar="S3_FOLDER", help="s3://bucket/folder to upload to.")
def run_package(aws: Aws, models: Path, code: Path | None, out: Path, to: str | None) -> None:
    """Write model.tar.gz from a folder of models and a folder of code; upload it with --to."""
    archive = package(models, code, out)
    if to:
        click.echo(upload(aws, archive, to))


@command.command("push")
@click.option("--image", default="lightbox", show_default=True, help="The local image.")
@click.option("--repository", default="lightbox", show_default=True)
@click.option("--tag", required=True, help="A new one for every build, as SageMaker caches pulled images.")
def run_push(aws: Aws, image: str, repository: str, tag: str) -> None:
    """Push the image into the account's registry (ECR)."""
    click.echo(push(aws, image, repository, tag))


@command.command("endpoint")
@PLAN
@KIND
@click.option("--component", metavar="NAME", default="", help="Serve the model as this inference component.")
@click.option("--cores", type=float, default=1.0, show_default=True, help="Of each copy of a component.")
@click.option("--component-mb", type=int, default=2048, show_default=True, help="Memory of each copy of a component.")
@click.option("--copies", type=int, default=1, show_default=True, help="Of a component.")
@click.option("--scale-to", type=int, metavar="INSTANCES", help="Most instances; turns scaling on.")
@click.option("--scale-from", type=int, metavar="INSTANCES", default=1, show_default=True, help="Least instances.")
@click.option(
    "--scale-target",
    type=float,
    default=1000.0,
    show_default=True,
    help="Invocations a minute on an instance; for an asynchronous endpoint requests that wait.",
)
def run_endpoint(
    aws: Aws,
    cores: float,
    component_mb: int,
    copies: int,
    scale_to: int | None,
    scale_from: int,
    scale_target: float,
    **plan: Any,
) -> None:
    """Make model, endpoint configuration and endpoint, wait for it, and set up scaling."""
    scaling = None if scale_to is None else Scaling(scale_from, scale_to, scale_target)
    steps.deploy(aws, plan_of(**plan), scaling, size=Size(cores, component_mb, copies))


@command.command("update")
@PLAN
@KIND
@click.option("--way", type=click.Choice(["blue-green", "rolling"]), default="blue-green", show_default=True)
@click.option("--step", type=int, default=10, help="Percent of the machines in the first or in each step.")
@click.option("--wait", type=int, default=300, show_default=True, help="Seconds between the steps.")
@click.option("--errors", type=int, default=5, show_default=True, help="5xx a minute beyond which it is rolled back.")
def run_update(aws: Aws, way: Literal["blue-green", "rolling"], step: int, wait: int, errors: int, **plan: Any) -> None:
    """Put another model, image or environment behind an endpoint, with rollback."""
    steps.update(aws, plan_of(**plan), steps.Rollout(way, step, wait, errors))


@command.command("transform")
@PLAN
@click.option("--source", required=True, metavar="S3_FOLDER", help="s3://bucket/folder of the images.")
@click.option("--content-type", default="application/x-image", show_default=True)
@click.option("--payload-mb", type=int, default=6, show_default=True, help="Most MB that a record may have.")
def run_transform(aws: Aws, source: str, content_type: str, payload_mb: int, **plan: Any) -> None:
    """Run every object of an S3 folder through the model (batch transform)."""
    batch.transform(aws, plan_of(**plan), batch.Records(source, content_type, payload_mb))


@command.command("invoke")
@click.argument("name")
@click.argument("body")
@click.option("--content-type", default="application/x-image", show_default=True)
@click.option("--component", metavar="NAME", help="The inference component that answers.")
@click.option("--container", metavar="HOSTNAME", help="Of a multi-container endpoint, the one that answers.")
@click.option("--model", metavar="ARCHIVE", help="Of a multi-model endpoint, the model that answers.")
@click.option("--stream", "streams", is_flag=True, help="Have the answer streamed.")
@click.option("--attributes", help="X-Amzn-SageMaker-Custom-Attributes, e.g. tfs-model-name=digits.")
def run_invoke(aws: Aws, name: str, body: str, content_type: str, **to: Any) -> None:
    """Send BODY, a file or an s3:// object to an asynchronous endpoint, and print the answer."""
    if body.startswith("s3://"):
        click.echo(steps.invoke_asynchronously(aws, name, body, content_type))
        return
    for part in steps.invoke(aws, name, Path(body), content_type, steps.Target(**to)):
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()


@command.command("delete")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def run_delete(aws: Aws, name: str, yes: bool) -> None:
    """Delete an endpoint with its configuration, model, scaling and alarms; asks first."""
    if not yes and not aws.dry_run:
        question = f"Delete the endpoint {name} in {aws.region} and all that belongs to it? Type its name"
        if click.prompt(question, default="", show_default=False) != name:
            raise Refused("nothing was deleted")
    delete(aws, name)


def _kind(component: str, serverless: bool, asynchronous: bool) -> Kind:
    if serverless and asynchronous:
        raise click.UsageError("--serverless and --asynchronous exclude each other")
    if component and (serverless or asynchronous):
        raise Refused("--component: an inference component is real-time; leave --serverless and --asynchronous out")
    if component:
        return Kind.COMPONENTS
    return Kind.SERVERLESS if serverless else Kind.ASYNCHRONOUS if asynchronous else Kind.REAL_TIME


def _pairs(takes: str, given: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, equals, value in (pair.partition("=") for pair in given):
        if not (name and equals):
            raise Refused(f"{takes}, not {name}{equals}{value}")
        if name in found:
            raise Refused(f"{takes}, and {name} came twice")
        found[name] = value
    return found


def plan_of(
    name: str,
    env: tuple[str, ...],
    container: tuple[str, ...] = (),
    multi_model: bool = False,
    component: str = "",
    serverless: bool = False,
    asynchronous: bool = False,
    **others: Any,
) -> Plan:
    """Return the plan that the options describe; raise Refused. ``others`` are fields of the plan by their names."""
    if container and multi_model:
        raise click.UsageError("--container and --multi-model exclude each other")
    return Plan(
        endpoint=name,
        environment=_pairs("--env takes NAME=VALUE", env),
        containers=_pairs("--container takes HOSTNAME=S3_URL", container),
        multi_model=multi_model,
        kind=_kind(component, serverless, asynchronous),
        component=component,
        **others,
    )
