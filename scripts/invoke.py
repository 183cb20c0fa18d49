"""Sends an image to an endpoint as SageMaker's callers do, with boto3, and shows the answer and where the time went.

scripts/invoke.py photo.jpg                                    a local endpoint, http://localhost:8080
scripts/invoke.py photo.jpg --transport rest --model digits
scripts/invoke.py photo.jpg --endpoint-name my-endpoint --region eu-central-1
"""

import argparse
import mimetypes
import sys
from pathlib import Path
from typing import Any

LOCAL = "http://localhost:8080"
SHOWN = 400


def main(arguments: list[str] | None = None) -> int:
    """Invoke as the command line says and return the exit code."""
    options = parse(arguments)
    from botocore.exceptions import BotoCoreError, ClientError

    from benchmark.clients.boto import Boto3Client, Boto3Session, runtime_client

    request = Boto3Client(
        options.image.read_bytes(), content_type(options.image), custom_attributes(options), options.endpoint_name
    )
    url = None if options.endpoint_name else options.url
    try:
        body, answer = Boto3Session(request, runtime_client(url, options.region)).invoke()
    except ClientError as error:
        print(f"invoke.py: {error.response.get('OriginalMessage') or error}", file=sys.stderr)
        return 1
    except BotoCoreError as error:
        print(f"invoke.py: {error}", file=sys.stderr)
        return 1
    show(body, answer)
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("image", type=Path, help="the file to send")
    add("--url", default=LOCAL, help=f"a local endpoint, {LOCAL} by default")
    add("--endpoint-name", help="an endpoint of SageMaker instead, with the credentials of the environment")
    add("--region", help="its region, where the environment names none")
    add("--model", help="one of several models behind the endpoint")
    add("--transport", choices=("local", "grpc", "rest"), help="the wire inside, by default the endpoint's own")
    options = parser.parse_args(arguments)
    if not options.image.is_file():
        parser.error(f"{options.image}: there is no such file")
    return options


def content_type(path: Path) -> str:
    """Return the media type that a file's name says, application/x-image where it says none."""
    return mimetypes.guess_type(path.name)[0] or "application/x-image"


def custom_attributes(options: argparse.Namespace) -> str:
    """Return the custom attributes that choose model and wire."""
    chosen = {"tfs-model-name": options.model, "tfs-transport": options.transport}
    return ",".join(f"{name}={value}" for name, value in chosen.items() if value)


def show(body: bytes, answer: dict[str, Any]) -> None:
    """Print the answer, shortened, and the stages."""
    from benchmark.clients.base import read_server_timing

    text = body.decode(errors="replace")
    print(text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(body)} bytes)")
    stages = read_server_timing(answer["ResponseMetadata"]["HTTPHeaders"].get("server-timing", ""))
    for name, milliseconds in stages.items():
        print(f"  {name:16} {milliseconds:8.2f} ms")


if __name__ == "__main__":
    sys.exit(main())
