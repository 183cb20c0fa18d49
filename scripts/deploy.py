"""Brings a model onto SageMaker: package, push, deploy, invoke, update, transform, delete.

Each step says what it made and makes nothing twice. --dry-run prints the requests and needs no account.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from deployment import batch, steps
from deployment.aws import Aws, Refused
from deployment.components import Size
from deployment.deletion import delete
from deployment.package import package, upload
from deployment.plan import Kind, Plan
from deployment.push import push
from deployment.scaling import Scaling


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = parser().parse_args(arguments)
    try:
        options.run(Aws(options.region, dry_run=options.dry_run), options)
    except Refused as problem:
        print(f"deploy.py: {problem}", file=sys.stderr)
    except (ClientError, BotoCoreError, OSError) as problem:
        print(f"deploy.py: {type(problem).__name__}: {problem}", file=sys.stderr)
    except KeyboardInterrupt:
        print("deploy.py: what was begun goes on without it; the same command waits for it again", file=sys.stderr)
        return 128 + signal.SIGINT
    else:
        return 0
    return 1


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    top = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for name, (run, describe) in COMMANDS.items():
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        command.add_argument("--region", help="AWS region; else that of the environment")
        command.add_argument("--dry-run", action="store_true", help="print the requests, make none")
        command.set_defaults(run=run)
        describe(command)
    return top


def run_package(aws: Aws, options: argparse.Namespace) -> None:
    """Write model.tar.gz from a folder of models and a folder of code; upload it with --to."""
    archive = package(options.models, options.code, options.out)
    if options.to:
        print(upload(aws, archive, options.to))


def describe_package(command: argparse.ArgumentParser) -> None:
    """Declare what package takes."""
    command.add_argument("models", type=Path, help="the folder that becomes /opt/ml/model")
    command.add_argument("--code", type=Path, help="the folder that becomes code/: inference.py and the rest")
    command.add_argument("--out", type=Path, default=Path("build/model.tar.gz"))
    command.add_argument("--to", metavar="S3_FOLDER", help="s3://bucket/folder to upload to")


def run_push(aws: Aws, options: argparse.Namespace) -> None:
    """Push the image into the account's registry (ECR)."""
    print(push(aws, options.image, options.repository, options.tag))


def describe_push(command: argparse.ArgumentParser) -> None:
    """Declare what push takes."""
    command.add_argument("--image", default="lightbox", help="the local image")
    command.add_argument("--repository", default="lightbox")
    command.add_argument("--tag", required=True, help="a new one for every build: SageMaker keeps what it has pulled")


def run_deploy(aws: Aws, options: argparse.Namespace) -> None:
    """Make model, endpoint configuration and endpoint, wait for it, and set up scaling."""
    size = Size(options.cores, options.component_mb, options.copies)
    steps.deploy(aws, plan_of(options), scaling_of(options), size=size)


def run_update(aws: Aws, options: argparse.Namespace) -> None:
    """Put another model, image or environment behind an endpoint, with rollback."""
    rollout = steps.Rollout(options.way, options.step, options.wait, options.errors)
    steps.update(aws, plan_of(options), rollout)


def run_transform(aws: Aws, options: argparse.Namespace) -> None:
    """Run every object of an S3 folder through the model (batch transform)."""
    records = batch.Records(options.source, options.content_type, options.payload_mb)
    batch.transform(aws, plan_of(options), records)


def describe_plan(command: argparse.ArgumentParser) -> None:
    """Declare what deploy, update and transform share."""
    command.add_argument("name", help="the endpoint's name")
    command.add_argument("--image", required=True, help="the image's name in the registry: what push prints")
    command.add_argument("--role", required=True, help="ARN of the execution role (deploy/iam/)")
    command.add_argument("--model-data", metavar="S3_URL", help="s3://…/model.tar.gz: what package prints")
    command.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a setting; repeatable")
    command.add_argument("--instance-type", default="ml.c6i.xlarge")
    command.add_argument("--instances", type=int, default=1)
    command.add_argument("--output", metavar="S3_FOLDER", help="s3://bucket/folder for answers")
    command.add_argument(
        "--concurrency", type=int, default=10, help="requests at once: serverless, asynchronous, batch"
    )


def describe_deploy(command: argparse.ArgumentParser) -> None:
    """Declare what deploy takes."""
    describe_plan(command)
    describe_kind(command)
    describe_several(command)
    command.add_argument("--component", metavar="NAME", default="", help="serve the model as this inference component")
    command.add_argument("--cores", type=float, default=1.0, help="of each copy of a component")
    command.add_argument("--component-mb", type=int, default=2048, help="memory of each copy of a component")
    command.add_argument("--copies", type=int, default=1, help="of a component")
    command.add_argument("--scale-to", type=int, metavar="INSTANCES", help="most instances; turns scaling on")
    command.add_argument("--scale-from", type=int, metavar="INSTANCES", default=1, help="least instances")
    command.add_argument(
        "--scale-target",
        type=float,
        default=1000.0,
        help="invocations a minute on an instance; for an asynchronous endpoint requests that wait",
    )


def describe_several(command: argparse.ArgumentParser) -> None:
    """Declare how an endpoint serves several archives."""
    several = command.add_mutually_exclusive_group()
    several.add_argument(
        "--container",
        action="append",
        default=[],
        metavar="HOSTNAME=S3_URL",
        help="a container with its own archive; 2 to 15 of them, and callers name one",
    )
    several.add_argument("--multi-model", action="store_true", help="--model-data is a folder; callers name an archive")


def describe_kind(command: argparse.ArgumentParser) -> None:
    """Declare how the endpoint takes requests."""
    kind = command.add_mutually_exclusive_group()
    kind.add_argument("--serverless", dest="kind", action="store_const", const=Kind.SERVERLESS)
    kind.add_argument("--asynchronous", dest="kind", action="store_const", const=Kind.ASYNCHRONOUS)
    command.add_argument("--startup-seconds", type=int, default=480, help="until the container must answer /ping")
    command.add_argument("--memory-mb", type=int, default=4096, choices=range(1024, 6145, 1024), help="serverless only")


def describe_update(command: argparse.ArgumentParser) -> None:
    """Declare what update takes."""
    describe_plan(command)
    describe_kind(command)
    describe_several(command)
    command.add_argument("--way", choices=["blue-green", "rolling"], default="blue-green")
    command.add_argument("--step", type=int, default=10, help="percent of the machines in the first or in each step")
    command.add_argument("--wait", type=int, default=300, help="seconds between the steps")
    command.add_argument("--errors", type=int, default=5, help="5xx a minute beyond which it is rolled back")


def describe_transform(command: argparse.ArgumentParser) -> None:
    """Declare what transform takes."""
    describe_plan(command)
    command.add_argument("--source", required=True, metavar="S3_FOLDER", help="s3://bucket/folder of the images")
    command.add_argument("--content-type", default="application/x-image")
    command.add_argument("--payload-mb", type=int, default=6, help="most MB that a record may have")


def run_invoke(aws: Aws, options: argparse.Namespace) -> None:
    """Send a file, or an s3:// object to an asynchronous endpoint, and print the answer."""
    if options.body.startswith("s3://"):
        print(steps.invoke_asynchronously(aws, options.name, options.body, options.content_type))
        return
    to = steps.Target(options.attributes, options.component, options.container, options.model, options.stream)
    for part in steps.invoke(aws, options.name, Path(options.body), options.content_type, to):
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()


def describe_invoke(command: argparse.ArgumentParser) -> None:
    """Declare what invoke takes."""
    command.add_argument("name", help="the endpoint's name")
    command.add_argument("body", help="a file, or s3://bucket/object")
    command.add_argument("--content-type", default="application/x-image")
    command.add_argument("--component", metavar="NAME", help="the inference component that answers")
    command.add_argument("--container", metavar="HOSTNAME", help="of a multi-container endpoint, the one that answers")
    command.add_argument("--model", metavar="ARCHIVE", help="of a multi-model endpoint, the model that answers")
    command.add_argument("--stream", action="store_true", help="have the answer streamed")
    command.add_argument("--attributes", help="X-Amzn-SageMaker-Custom-Attributes, e.g. tfs-model-name=digits")


def run_delete(aws: Aws, options: argparse.Namespace) -> None:
    """Delete an endpoint with its configuration, model, scaling and alarms; asks first."""
    if not options.yes and not aws.dry_run:
        said = input(f"Delete the endpoint {options.name} in {aws.region} and all that belongs to it? Type its name: ")
        if said != options.name:
            raise Refused("nothing was deleted")
    delete(aws, options.name)


def describe_delete(command: argparse.ArgumentParser) -> None:
    """Declare what delete takes."""
    command.add_argument("name", help="the endpoint's name")
    command.add_argument("--yes", action="store_true", help="do not ask")


COMMANDS = {
    "package": (run_package, describe_package),
    "push": (run_push, describe_push),
    "deploy": (run_deploy, describe_deploy),
    "invoke": (run_invoke, describe_invoke),
    "update": (run_update, describe_update),
    "transform": (run_transform, describe_transform),
    "delete": (run_delete, describe_delete),
}


def _kind(options: argparse.Namespace) -> Kind:
    chosen: Kind | None = getattr(options, "kind", None)
    if not getattr(options, "component", ""):
        return chosen or Kind.REAL_TIME
    if chosen is not None:
        raise Refused("--component: an inference component is real-time; leave --serverless and --asynchronous out")
    return Kind.COMPONENTS


def _pairs(takes: str, given: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, equals, value in (pair.partition("=") for pair in given):
        if not (name and equals):
            raise Refused(f"{takes}, not {name}{equals}{value}")
        if name in found:
            raise Refused(f"{takes}, and {name} came twice")
        found[name] = value
    return found


def plan_of(options: argparse.Namespace) -> Plan:
    """Return the plan that the options describe; raise Refused."""
    return Plan(
        endpoint=options.name,
        image=options.image,
        role=options.role,
        model_data=options.model_data,
        environment=_pairs("--env takes NAME=VALUE", options.env),
        containers=_pairs("--container takes HOSTNAME=S3_URL", getattr(options, "container", [])),
        multi_model=getattr(options, "multi_model", False),
        kind=_kind(options),
        component=getattr(options, "component", ""),
        instance_type=options.instance_type,
        instances=options.instances,
        memory_mb=getattr(options, "memory_mb", 4096),
        concurrency=options.concurrency,
        output=options.output,
        startup_seconds=getattr(options, "startup_seconds", 480),
    )


def scaling_of(options: argparse.Namespace) -> Scaling | None:
    """Return the scaling that the options describe, None without --scale-to."""
    if options.scale_to is None:
        return None
    return Scaling(options.scale_from, options.scale_to, options.scale_target)


if __name__ == "__main__":
    sys.exit(main())
