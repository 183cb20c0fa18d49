"""``lightbox invoke``: one image, sent like SageMaker's callers, and the time of each stage."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import click

from lightbox.base.control_characters import escape
from lightbox.tools.client.http import MOST_RESPONSE, BadResponse, Http, NoResponse, ResponseTimeout
from lightbox.tools.client.senders import Response

LOCAL = "http://localhost:8080"
SHOWN, TIMEOUT = 400, 120.0
"""Characters of a response that are printed, and seconds that it may take."""
OK = 200
_HEADERS = {
    name: f"X-Amzn-SageMaker-{header}"
    for name, header in (
        ("CustomAttributes", "Custom-Attributes"),
        ("TargetModel", "Target-Model"),
        ("TargetContainerHostname", "Target-Container-Hostname"),
        ("InferenceComponentName", "Inference-Component"),
    )
}
"""Headers by boto3's arguments."""


@click.command("invoke", epilog="Example: lightbox invoke photo.jpg --model digits")
@click.argument("image", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--url", default=LOCAL, show_default=True, help="Address of a local endpoint.")
@click.option("--endpoint-name", help="SageMaker endpoint to call instead, with the credentials of the environment.")
@click.option("--region", help="AWS region; by default that of the environment.")
@click.option("--model", help="Model to call, if the endpoint has several.")
@click.option(
    "--transport", type=click.Choice(["inside", "local", "grpc", "rest"]), help="Transport to the model server."
)
@click.option("--target-model", metavar="ARCHIVE", help="Archive of a multi-model endpoint to call.")
@click.option("--target-container-hostname", metavar="NAME", help="Container to call, if the endpoint has several.")
@click.option("--inference-component-name", metavar="NAME", help="Inference component of the endpoint to call.")
def command(
    image: Path,
    url: str,
    endpoint_name: str | None,
    region: str | None,
    model: str | None,
    transport: str | None,
    **target: str | None,
) -> None:
    """Send an image; print response and stages. A SageMaker endpoint is called with boto3."""
    chosen = {"tfs-model-name": model, "tfs-transport": transport}
    attributes = {"CustomAttributes": ",".join(f"{name}={value}" for name, value in chosen.items() if value)}
    given = {name.title().replace("_", ""): value for name, value in target.items()} | attributes
    named = {name: value for name, value in given.items() if value}
    if endpoint_name:
        show(*_from_sagemaker(image, endpoint_name, region, named))
    else:
        show(*_from_url(image, url, named))


def _from_url(image: Path, url: str, named: Mapping[str, str]) -> tuple[bytes, Mapping[str, str]]:
    """Return a local endpoint's response and its headers."""
    headers = {_HEADERS[name]: value for name, value in named.items()} | {"Content-Type": content_type(image)}
    try:
        came = Http(TIMEOUT).request("POST", f"{url.rstrip('/')}/invocations", image.read_bytes(), headers)
    except (NoResponse, ResponseTimeout, BadResponse) as error:
        raise click.ClickException(escape(str(error))) from None
    if came.status != OK:
        raise click.ClickException(escape(Response(came.status, came.body).failure()[0]))
    return came.body, came.headers


def _from_sagemaker(
    image: Path, endpoint_name: str, region: str | None, named: Mapping[str, str]
) -> tuple[bytes, Mapping[str, str]]:
    """Return a SageMaker endpoint's response and its headers."""
    from botocore.exceptions import BotoCoreError, ClientError

    from lightbox.tools.client.boto import runtime_client

    client = runtime_client(None, region)
    try:
        response = client.invoke_endpoint(
            EndpointName=endpoint_name, Body=image.read_bytes(), ContentType=content_type(image), **named
        )
        return response["Body"].read(MOST_RESPONSE), response["ResponseMetadata"]["HTTPHeaders"]
    except ClientError as error:
        raise click.ClickException(escape(str(error.response.get("OriginalMessage") or error))) from None
    except BotoCoreError as error:
        raise click.ClickException(escape(str(error))) from None


def content_type(path: Path) -> str:
    """Return the media type of a file's name, application/x-image if unknown."""
    return mimetypes.guess_type(path.name)[0] or "application/x-image"


def show(body: bytes, headers: Mapping[str, str]) -> None:
    """Print the response, shortened, and the stages."""
    text = body.decode(errors="replace")
    click.echo(text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(body)} bytes)")
    timing = next((value for name, value in headers.items() if name.lower() == "server-timing"), "")
    for name, milliseconds in read_server_timing(timing).items():
        click.echo(escape(f"  {name:16} {milliseconds:8.2f} ms"))


def read_server_timing(header: str) -> dict[str, float]:
    """Return milliseconds by stage of a ``Server-Timing`` header; entries without a duration are skipped."""
    durations = {}
    for part in header.split(","):
        name, _, parameters = part.strip().partition(";")
        for parameter in parameters.split(";"):
            key, _, value = parameter.strip().partition("=")
            if key == "dur":
                with suppress(ValueError):
                    durations[name] = float(value)
    return durations
