"""Waits for SageMaker's resources, showing each change of state."""

from __future__ import annotations

import time
from collections.abc import Callable

from lightbox.base.telemetry import say
from lightbox.tools.deploy.aws_calls import Aws, Refused


def wait_for(aws: Aws, what: str, state: Callable[[], str], ends: set[str], pause: float = 10.0) -> str:
    """Ask for a state until it is one of ``ends`` and return that one; a dry run does not wait and returns ''."""
    if aws.dry_run:
        return ""
    started, last = time.monotonic(), ""
    while True:
        now = state()
        if now != last:
            say.progress(f"{what}: {now} after {time.monotonic() - started:.0f} s")
            last = now
        if now in ends:
            return now
        time.sleep(pause)


def endpoint_ready(aws: Aws, name: str, pause: float = 10.0) -> None:
    """Wait until an endpoint serves; raise Refused with SageMaker's reason, and where the log is, when it fails."""

    def state() -> str:
        return str(aws.call("sagemaker", "describe_endpoint", EndpointName=name)["EndpointStatus"])

    ends = {"InService", "Failed", "OutOfService", "UpdateRollbackFailed"}
    if wait_for(aws, f"endpoint {name}", state, ends, pause) in {"InService", ""}:
        return
    answer = aws.call("sagemaker", "describe_endpoint", EndpointName=name)
    raise Refused(
        f"endpoint {name} is {answer['EndpointStatus']}: {answer.get('FailureReason', 'no reason is given')}\n"
        f"its log: {log_url(aws.region, f'/aws/sagemaker/Endpoints/{name}')}"
    )


def log_url(region: str, group: str) -> str:
    """Return where the console shows a log group."""
    escaped = group.replace("/", "$252F")
    return (
        f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}#logsV2:log-groups/log-group/{escaped}"
    )
