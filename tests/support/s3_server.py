"""moto's S3 server, for use by other processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

BUCKET = "pictures"


@contextmanager
def serving() -> Iterator[dict[str, str]]:
    """Serve S3 with one empty bucket; yield the environment that points boto3 to it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        environ = {
            "AWS_ENDPOINT_URL_S3": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "none",
            "AWS_SECRET_ACCESS_KEY": "none",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        client(environ).create_bucket(Bucket=BUCKET)
        yield environ
    finally:
        server.stop()


def client(environ: dict[str, str]) -> Any:
    """Return a boto3 client for this S3."""
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=environ["AWS_ENDPOINT_URL_S3"],
        aws_access_key_id="none",
        aws_secret_access_key="none",
        region_name="us-east-1",
    )
