"""Deploy, update, invoke and transform."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from deployment import requests
from deployment.aws import Aws, Refused
from deployment.package import split_s3
from deployment.plan import Kind, Plan
from deployment.waiting import endpoint_ready, log_url, wait_for
from model_zoo import say


def deploy(aws: Aws, plan: Plan, scaling: requests.Scaling | None, pause: float = 10.0) -> None:
    """Make model, configuration and endpoint, those that are missing; wait; then scaling.

    Raises Refused when the endpoint exists with another content (that is an update), or fails.
    """
    if scaling is not None:
        _check_scaling(plan, scaling)
    there = _endpoint(aws, plan.endpoint)
    if there is not None and there["EndpointConfigName"] != plan.config_name:
        raise Refused(f"endpoint {plan.endpoint} serves something else already: use update")
    _make_model_and_config(aws, plan)
    create = requests.endpoint(plan)
    aws.ensure(f"endpoint {plan.endpoint}", lambda: there, lambda: aws.call("sagemaker", "create_endpoint", **create))
    endpoint_ready(aws, plan.endpoint, pause)
    if scaling is not None:
        _scale(aws, plan, scaling)


def _endpoint(aws: Aws, name: str) -> dict[str, Any] | None:
    return aws.find("sagemaker", "describe_endpoint", EndpointName=name)


def make_model(aws: Aws, plan: Plan) -> None:
    """Make the model unless it is there."""
    name = plan.model_name
    aws.ensure(
        f"model {name}",
        lambda: aws.find("sagemaker", "describe_model", ModelName=name),
        lambda: aws.call("sagemaker", "create_model", **requests.model(plan)),
    )


def _make_model_and_config(aws: Aws, plan: Plan) -> None:
    make_model(aws, plan)
    name = plan.config_name
    aws.ensure(
        f"configuration {name}",
        lambda: aws.find("sagemaker", "describe_endpoint_config", EndpointConfigName=name),
        lambda: aws.call("sagemaker", "create_endpoint_config", **requests.endpoint_config(plan)),
    )


def _check_scaling(plan: Plan, scaling: requests.Scaling) -> None:
    if plan.kind is Kind.SERVERLESS:
        raise Refused("a serverless endpoint scales by itself: leave the --scale options out")
    if plan.kind is Kind.REAL_TIME and scaling.least < 1:
        raise Refused("a real-time endpoint keeps at least one instance: only an asynchronous one scales to 0")


def _scale(aws: Aws, plan: Plan, scaling: requests.Scaling) -> None:
    autoscaling = "application-autoscaling"
    aws.call(autoscaling, "register_scalable_target", **requests.registration(plan.endpoint, scaling))
    aws.call(autoscaling, "put_scaling_policy", **requests.scaling_policy(plan.endpoint, plan.kind, scaling))
    say.progress(f"scaling: {scaling.least} to {scaling.most} instances, {scaling.target:g} on each")


@dataclass(frozen=True)
class Rollout:
    """How an update replaces the machines: percent at a time, seconds between, 5xx a minute that roll it back."""

    way: Literal["blue-green", "rolling"] = "blue-green"
    step: int = 10
    wait: int = 300
    errors: int = 5


def update(aws: Aws, plan: Plan, rollout: Rollout, pause: float = 10.0) -> None:
    """Put a new content behind an endpoint, a part of the machines at a time; raise Refused when it was rolled back."""
    there = _endpoint(aws, plan.endpoint)
    if there is None and not aws.dry_run:
        raise Refused(f"endpoint {plan.endpoint} is not there: use deploy")
    if there is not None and there["EndpointConfigName"] == plan.config_name:
        say.progress(f"endpoint {plan.endpoint}: serves this already")
        return
    _make_model_and_config(aws, plan)
    if plan.kind is not Kind.SERVERLESS:
        aws.call("cloudwatch", "put_metric_alarm", **requests.rollback_alarm(plan.endpoint, rollout.errors))
        say.progress(f"alarm {requests.alarm_name(plan.endpoint)}: more than {rollout.errors} errors (5xx) a minute")
    aws.call("sagemaker", "update_endpoint", **requests.update(plan, rollout.way, rollout.step, rollout.wait))
    endpoint_ready(aws, plan.endpoint, pause)
    now = _endpoint(aws, plan.endpoint)
    if now is not None and now["EndpointConfigName"] != plan.config_name:
        group = f"/aws/sagemaker/Endpoints/{plan.endpoint}"
        raise Refused(
            f"the update was rolled back: {now.get('FailureReason', 'no reason is given')}\n"
            f"endpoint {plan.endpoint} serves what it served before; its log: {log_url(aws.region, group)}"
        )


def invoke(aws: Aws, endpoint: str, body: Path, content_type: str, attributes: str | None) -> bytes:
    """Send a file to an endpoint and return the answer; raise botocore's ClientError (ModelError holds ours)."""
    extra = {"CustomAttributes": attributes} if attributes else {}
    answer = aws.call(
        "sagemaker-runtime",
        "invoke_endpoint",
        EndpointName=endpoint,
        Body=body.read_bytes(),
        ContentType=content_type,
        **extra,
    )
    return answer["Body"].read() if answer else b""


def invoke_asynchronously(aws: Aws, endpoint: str, source: str, content_type: str) -> str:
    """Hand an s3:// object to an asynchronous endpoint and return where its answer will be."""
    split_s3(source)
    request = {"EndpointName": endpoint, "InputLocation": source, "ContentType": content_type}
    return str(aws.call("sagemaker-runtime", "invoke_endpoint_async", **request).get("OutputLocation", ""))


def transform(aws: Aws, plan: Plan, source: str, content_type: str, pause: float = 10.0) -> None:
    """Run every object under an s3:// folder through the model, on machines that live as long as the job."""
    split_s3(source)
    if not plan.output:
        raise Refused("a transform job needs --output s3://…, the folder for its answers")
    make_model(aws, plan)
    name = f"{plan.endpoint}-{time.strftime('%y%m%d-%H%M%S', time.gmtime())}"
    aws.call("sagemaker", "create_transform_job", **requests.transform(plan, name, source, content_type))

    def describe() -> dict[str, Any]:
        return aws.call("sagemaker", "describe_transform_job", TransformJobName=name)

    def state() -> str:
        return str(describe()["TransformJobStatus"])

    end = wait_for(aws, f"transform job {name}", state, {"Completed", "Failed", "Stopped"}, pause)
    if end in {"Failed", "Stopped"}:
        group = log_url(aws.region, "/aws/sagemaker/TransformJobs")
        raise Refused(f"transform job {name} is {end}: {describe().get('FailureReason', '')}\nits log: {group}")
    say.progress(f"answers: {plan.output}")
