"""boto3's client of an endpoint, SageMaker's or a local one."""

from __future__ import annotations

from typing import Any


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
