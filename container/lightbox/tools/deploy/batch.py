"""Batch transform: a folder of S3 through the model, without an endpoint."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from lightbox.base.telemetry import say
from lightbox.tools.deploy import requests
from lightbox.tools.deploy.aws_calls import Aws, Refused
from lightbox.tools.deploy.deployment import Plan
from lightbox.tools.deploy.package import split_s3
from lightbox.tools.deploy.steps import make_model
from lightbox.tools.deploy.waiting import log_url, wait_for

MOST_MB_AT_ONCE = 100
"""MaxConcurrentTransforms times MaxPayloadInMB, says CreateTransformJob; botocore's model does not know it."""


@dataclass(frozen=True)
class Records:
    """The input of a transform job: every object under an s3:// folder is one record."""

    source: str
    content_type: str = "application/x-image"
    payload_mb: int = 6


def transform(aws: Aws, plan: Plan, records: Records, pause: float = 10.0) -> None:
    """Run all records through the model, on machines that live as long as the job."""
    split_s3(records.source)
    if not plan.output:
        raise Refused("a transform job needs --output s3://…, the folder for its answers")
    if plan.concurrency * records.payload_mb > MOST_MB_AT_ONCE:
        raise Refused(
            f"--concurrency {plan.concurrency} times --payload-mb {records.payload_mb} is more than {MOST_MB_AT_ONCE}"
        )
    name = f"{plan.endpoint}-{time.strftime('%y%m%d-%H%M%S', time.gmtime())}"
    request = requests.transform(plan, name, records.source, records.content_type, records.payload_mb)
    aws.check("sagemaker", "create_transform_job", **request)
    make_model(aws, plan)
    aws.call("sagemaker", "create_transform_job", **request)
    _wait_for_job(aws, name, pause)
    say.progress(f"answers: {plan.output}")


def _wait_for_job(aws: Aws, name: str, pause: float) -> None:
    def describe() -> dict[str, Any]:
        return aws.call("sagemaker", "describe_transform_job", TransformJobName=name)

    def state() -> str:
        return str(describe()["TransformJobStatus"])

    end = wait_for(aws, f"transform job {name}", state, {"Completed", "Failed", "Stopped"}, pause)
    if end in {"Failed", "Stopped"}:
        group = log_url(aws.region, "/aws/sagemaker/TransformJobs")
        raise Refused(f"transform job {name} is {end}: {describe().get('FailureReason', '')}\nits log: {group}")
