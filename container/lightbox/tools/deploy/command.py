"""``lightbox deploy``: the way of a model onto SageMaker."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import click
from botocore.exceptions import BotoCoreError, ClientError

from lightbox.tools.deploy import batch, steps
from lightbox.tools.deploy.aws_calls import Aws, Refused
from lightbox.tools.deploy.components import Size
from lightbox.tools.deploy.deletion import delete
from lightbox.tools.deploy.deployment import Kind, Plan
from lightbox.tools.deploy.package import package, upload
from lightbox.tools.deploy.push import push
from lightbox.tools.deploy.scaling import Scaling

Decorator = Callable[[Callable[..., None]], Callable[..., None]]
INTERRUPTED = 130


class AwsCommand(click.Command):
    """A command with an argument ``aws``; errors of AWS or a plan are a sentence and exit code 1."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += [
            click.Option(["--region"], help="AWS region; by default that of the environment."),
            click.Option(["--dry-run"], is_flag=True, help="Print the requests without sending them."),
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
    """Deploy a model to SageMaker.

    Each step prints its result, and creates nothing twice. --dry-run needs no account.
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
    click.option("--image", required=True, help="Image in the registry, as printed by push."),
    click.option("--role", required=True, metavar="ARN", help="Execution role (deploy/iam/)."),
    click.option("--model-data", metavar="S3_URL", help="Archive of the model, as printed by package."),
    click.option(
        "--env", multiple=True, metavar="NAME=VALUE", help="Environment variable, such as a setting; repeatable."
    ),
    click.option("--instance-type", default="ml.c6i.xlarge", show_default=True, help="Type of the instances."),
    click.option("--instances", type=int, metavar="N", default=1, show_default=True, help="Number of instances."),
    click.option(
        "--output", metavar="S3_FOLDER", help="Folder for the responses of an asynchronous endpoint or a batch."
    ),
    click.option(
        "--concurrency",
        type=int,
        metavar="N",
        default=10,
        show_default=True,
        help="Concurrent requests of a serverless or asynchronous endpoint or a batch.",
    ),
)
"""Options that endpoint, update and transform share."""

KIND = _all(
    click.option("--serverless", is_flag=True, help="Make the endpoint serverless."),
    click.option("--asynchronous", is_flag=True, help="Make the endpoint asynchronous."),
    click.option(
        "--startup-seconds",
        type=int,
        metavar="N",
        default=480,
        show_default=True,
        help="Time until /ping must return 200.",
    ),
    click.option(
        "--memory-mb",
        type=click.Choice(list(range(1024, 6145, 1024))),
        metavar="N",
        default=4096,
        show_default=True,
        help="Memory of a serverless endpoint, a multiple of 1024 up to 6144.",
    ),
    click.option(
        "--container",
        multiple=True,
        metavar="HOSTNAME=S3_URL",
        help="Container with its own archive, 2 to 15 times; callers name one.",
    ),
    click.option(
        "--multi-model", is_flag=True, help="Serve all archives of the folder --model-data; callers name one."
    ),
)
"""How the endpoint takes requests, and how it serves several archives."""

CONTENT_TYPE = click.option(
    "--content-type", default="application/x-image", show_default=True, help="Content-Type of the requests."
)


@command.command("package")
@click.argument("models", type=click.Path(path_type=Path))
@click.option("--code", type=click.Path(path_type=Path), help="Folder with inference.py, which becomes code/.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("build/model.tar.gz"),
    show_default=True,
    help="Archive to write.",
)
@click.option("--to", metavar="S3_FOLDER", help="Folder to upload it to.")
def run_package(aws: Aws, models: Path, code: Path | None, out: Path, to: str | None) -> None:
    """Write model.tar.gz from a folder of models; with --to, upload it."""
    archive = package(models, code, out)
    if to:
        click.echo(upload(aws, archive, to))


@command.command("push")
@click.option("--image", default="lightbox", show_default=True, help="Local image.")
@click.option("--repository", default="lightbox", show_default=True, help="Repository in ECR.")
@click.option("--tag", required=True, help="Tag, a new one for every build: SageMaker caches images.")
def run_push(aws: Aws, image: str, repository: str, tag: str) -> None:
    """Push an image to the registry of the account (ECR)."""
    click.echo(push(aws, image, repository, tag))


@command.command("endpoint")
@PLAN
@KIND
@click.option("--component", metavar="NAME", default="", help="Serve the model as an inference component.")
@click.option(
    "--cores", type=float, metavar="N", default=1.0, show_default=True, help="Cores for each copy of the component."
)
@click.option("--component-mb", type=int, metavar="N", default=2048, show_default=True, help="Memory for each copy.")
@click.option("--copies", type=int, metavar="N", default=1, show_default=True, help="Copies of the component.")
@click.option("--scale-to", type=int, metavar="N", help="Maximum number of instances; turns scaling on.")
@click.option("--scale-from", type=int, metavar="N", default=1, show_default=True, help="Minimum number of instances.")
@click.option(
    "--scale-target",
    type=float,
    metavar="N",
    default=1000.0,
    show_default=True,
    help="Target load of an instance: invocations per minute, or waiting requests if asynchronous.",
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
    """Create an endpoint with its model and configuration."""
    scaling = None if scale_to is None else Scaling(scale_from, scale_to, scale_target)
    steps.deploy(aws, plan_of(**plan), scaling, size=Size(cores, component_mb, copies))


@command.command("update")
@PLAN
@KIND
@click.option(
    "--way",
    type=click.Choice(["blue-green", "rolling"]),
    default="blue-green",
    show_default=True,
    help="Deployment strategy.",
)
@click.option(
    "--step",
    type=int,
    metavar="PERCENT",
    default=10,
    show_default=True,
    help="Share of the instances in the first step (blue-green) or each step (rolling).",
)
@click.option("--wait", type=int, metavar="SECONDS", default=300, show_default=True, help="Time between steps.")
@click.option(
    "--errors", type=int, metavar="N", default=5, show_default=True, help="5xx per minute that cause a rollback."
)
def run_update(aws: Aws, way: Literal["blue-green", "rolling"], step: int, wait: int, errors: int, **plan: Any) -> None:
    """Change the model, image or environment of an endpoint."""
    steps.update(aws, plan_of(**plan), steps.Rollout(way, step, wait, errors))


@command.command("transform")
@PLAN
@click.option("--source", required=True, metavar="S3_FOLDER", help="Folder of the images.")
@CONTENT_TYPE
@click.option("--payload-mb", type=int, metavar="N", default=6, show_default=True, help="Maximum size of a record.")
def run_transform(aws: Aws, source: str, content_type: str, payload_mb: int, **plan: Any) -> None:
    """Predict the objects of an S3 folder by batch transform."""
    batch.transform(aws, plan_of(**plan), batch.Records(source, content_type, payload_mb))


@command.command("invoke")
@click.argument("name")
@click.argument("body")
@CONTENT_TYPE
@click.option("--component", metavar="NAME", help="Inference component to call.")
@click.option("--container", metavar="HOSTNAME", help="Container to call, if the endpoint has several.")
@click.option("--model", metavar="ARCHIVE", help="Model to call, if the endpoint has several.")
@click.option("--stream", "streams", is_flag=True, help="Stream the response.")
@click.option("--attributes", help="Custom attributes, such as tfs-model-name=digits.")
def run_invoke(aws: Aws, name: str, body: str, content_type: str, **to: Any) -> None:
    """Send BODY, a file, to an endpoint, or an S3 object to an asynchronous one."""
    if body.startswith("s3://"):
        click.echo(steps.invoke_asynchronously(aws, name, body, content_type))
        return
    for part in steps.invoke(aws, name, Path(body), content_type, steps.Target(**to)):
        if sys.stdout.isatty():
            click.echo(part.decode(errors="replace"), nl=False)
        else:
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()


@command.command("delete")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def run_delete(aws: Aws, name: str, yes: bool) -> None:
    """Delete an endpoint with its configuration, model, scaling and alarms."""
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
