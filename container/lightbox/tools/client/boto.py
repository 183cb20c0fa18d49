"""boto3's client of an endpoint, SageMaker's or a local one."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any

from lightbox.tools.client.http import Http


def runtime_client(
    url: str | None, region: str | None = None, connections: int = 10, read_timeout: float = 120.0
) -> Any:
    """Return a SageMaker Runtime client that repeats nothing; a local endpoint takes any credentials."""
    import boto3
    from botocore.config import Config

    config = Config(retries={"max_attempts": 0}, read_timeout=read_timeout, max_pool_connections=connections)
    if url is None:
        return boto3.client("sagemaker-runtime", region_name=region, config=config)
    return boto3.client(
        "sagemaker-runtime",
        endpoint_url=url,
        region_name=region or "us-east-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",  # noqa: S106 - a local endpoint checks none
        config=config,
    )


def bounded(client: Any, timeout: float) -> Any:
    """Let a local endpoint's client send with our own HTTP: botocore's has no limits. Raises as ``Http.request``."""
    from botocore.awsrequest import AWSResponse

    own = Http(timeout)

    def send(request: Any, **_: Any) -> Any:
        came = own.request(request.method, request.url, request.body, dict(request.headers.items()))
        return AWSResponse(request.url, came.status, came.headers, _Body(came.body))

    client.meta.events.register("before-send.sagemaker-runtime", send)
    return client


class _Body(BytesIO):
    """A body that botocore reads, at once or as a stream."""

    def stream(self) -> Iterator[bytes]:
        """Yield the rest."""
        yield self.read()
