"""``lightbox invoke``: one image, sent like SageMaker's callers, and the time of each stage."""

from __future__ import annotations

import mimetypes
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from lightbox.base.telemetry.logs import escape
from lightbox.tools.client.http import MOST_RESPONSE, BadResponse, NoResponse, ResponseTimeout

LOCAL = "http://localhost:8080"
SHOWN, TIMEOUT = 400, 120.0
"""Characters of a response that are printed, and seconds that it may take."""


@click.command("invoke", epilog="Example: lightbox invoke photo.jpg --model digits")
@click.argument("image", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--url", default=LOCAL, show_default=True, help="Address of a local endpoint.")
@click.option("--endpoint-name", help="SageMaker endpoint to call instead, with the credentials of the environment.")
@click.option("--region", help="AWS region; by default that of the environment.")
@click.option("--model", help="Model to call, if the endpoint has several.")
@click.option("--transport", type=click.Choice(["local", "grpc", "rest"]), help="Transport to the model server.")
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
    """Send an image with boto3; print response and stages."""
    from botocore.exceptions import BotoCoreError, ClientError

    from lightbox.tools.client.boto import bounded, runtime_client

    chosen = {"tfs-model-name": model, "tfs-transport": transport}
    attributes = ",".join(f"{name}={value}" for name, value in chosen.items() if value)
    client = runtime_client(None if endpoint_name else url, region)
    client = client if endpoint_name else bounded(client, TIMEOUT)
    try:
        response = client.invoke_endpoint(
            EndpointName=endpoint_name or "local",
            Body=image.read_bytes(),
            ContentType=content_type(image),
            **({"CustomAttributes": attributes} if attributes else {}),
            **{name.title().replace("_", ""): value for name, value in target.items() if value},
        )
        body = response["Body"].read(MOST_RESPONSE)
    except ClientError as error:
        raise click.ClickException(escape(str(error.response.get("OriginalMessage") or error))) from None
    except (BotoCoreError, NoResponse, ResponseTimeout, BadResponse) as error:
        raise click.ClickException(escape(str(error))) from None
    except Exception as error:  # botocore's parser raises whatever an endpoint's answer leads to
        raise click.ClickException(escape(f"the answer cannot be read: {type(error).__name__}: {error}")) from None
    show(body, response)


def content_type(path: Path) -> str:
    """Return the media type of a file's name, application/x-image if unknown."""
    return mimetypes.guess_type(path.name)[0] or "application/x-image"


def show(body: bytes, response: dict[str, Any]) -> None:
    """Print the response, shortened, and the stages."""
    text = body.decode(errors="replace")
    click.echo(text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(body)} bytes)")
    stages = read_server_timing(response["ResponseMetadata"]["HTTPHeaders"].get("server-timing", ""))
    for name, milliseconds in stages.items():
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
