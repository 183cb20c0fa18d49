"""Deploy, update and invoke."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lightbox.base.telemetry import say
from lightbox.tools.deploy import components, requests
from lightbox.tools.deploy.aws_calls import Aws, Refused
from lightbox.tools.deploy.deployment import Kind, Plan
from lightbox.tools.deploy.package import split_s3
from lightbox.tools.deploy.scaling import Scaling, is_scaled, scale
from lightbox.tools.deploy.scaling import check as check_scaling
from lightbox.tools.deploy.waiting import endpoint_ready, log_url

ONE = components.Size()


def deploy(aws: Aws, plan: Plan, scaling: Scaling | None, pause: float = 10.0, size: components.Size = ONE) -> None:
    """Make model, configuration and endpoint, those that are missing; wait; then the component or scaling.

    Raises Refused when the endpoint exists with another content (that is an update), or fails.
    """
    if scaling is not None:
        if plan.kind is Kind.COMPONENTS:
            raise Refused("--scale-to sets up an endpoint's machines; with --component give --copies")
        check_scaling(plan, scaling)
    if plan.kind is Kind.COMPONENTS:
        aws.check("sagemaker", "create_inference_component", **components.request(plan, size))
    _check_model_and_config(aws, plan)
    there = _endpoint(aws, plan.endpoint)
    if there is not None and there["EndpointConfigName"] != plan.config_name:
        raise Refused(f"endpoint {plan.endpoint} serves something else already: use update")
    _make_model_and_config(aws, plan)
    create = requests.endpoint(plan)
    aws.ensure(f"endpoint {plan.endpoint}", lambda: there, lambda: aws.call("sagemaker", "create_endpoint", **create))
    endpoint_ready(aws, plan.endpoint, pause)
    if plan.kind is Kind.COMPONENTS:
        components.place(aws, plan, size, pause)
    if scaling is not None:
        scale(aws, plan, scaling)


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


def _check_model_and_config(aws: Aws, plan: Plan) -> None:
    """Raise Refused before anything is made that could then not be used."""
    aws.check("sagemaker", "create_model", **requests.model(plan))
    aws.check("sagemaker", "create_endpoint_config", **requests.endpoint_config(plan))


def _make_model_and_config(aws: Aws, plan: Plan) -> None:
    make_model(aws, plan)
    name = plan.config_name
    aws.ensure(
        f"configuration {name}",
        lambda: aws.find("sagemaker", "describe_endpoint_config", EndpointConfigName=name),
        lambda: aws.call("sagemaker", "create_endpoint_config", **requests.endpoint_config(plan)),
    )


MOST_STEP, MOST_WAIT = 50, 3600


@dataclass(frozen=True)
class Rollout:
    """How an update replaces the machines: percent at a time, seconds between, 5xx a minute that roll it back."""

    way: Literal["blue-green", "rolling"] = "blue-green"
    step: int = 10
    wait: int = 300
    errors: int = 5

    def __post_init__(self) -> None:
        # SageMaker's limits, of which botocore's model knows the second alone.
        least = 5 if self.way == "rolling" else 1
        if not least <= self.step <= MOST_STEP:
            raise Refused(f"--step {self.step}: {self.way} takes {least} to {MOST_STEP} percent of the machines")
        if not 0 <= self.wait <= MOST_WAIT:
            raise Refused(f"--wait {self.wait}: SageMaker waits 0 to {MOST_WAIT} seconds")
        if self.errors < 0:
            raise Refused(f"--errors {self.errors}: expected a number of answers, 0 or more")


def update(aws: Aws, plan: Plan, rollout: Rollout, pause: float = 10.0) -> None:
    """Put a new content behind an endpoint, a part of the machines at a time; raise Refused when it was rolled back."""
    if plan.kind is Kind.COMPONENTS:
        raise Refused("update takes no components: deploy --component replaces the copies one after another")
    if plan.kind is Kind.SERVERLESS and rollout.way == "rolling":
        raise Refused("a serverless endpoint has no machines to replace one after the other: leave --way out")
    _check_model_and_config(aws, plan)
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
    keep = is_scaled(aws, plan.endpoint)
    aws.call("sagemaker", "update_endpoint", **requests.update(plan, rollout.way, rollout.step, rollout.wait, keep))
    endpoint_ready(aws, plan.endpoint, pause)
    now = _endpoint(aws, plan.endpoint)
    if now is not None and now["EndpointConfigName"] != plan.config_name:
        group = f"/aws/sagemaker/Endpoints/{plan.endpoint}"
        raise Refused(
            f"the update was rolled back: {now.get('FailureReason', 'no reason is given')}\n"
            f"endpoint {plan.endpoint} serves its previous configuration; its log: {log_url(aws.region, group)}"
        )


@dataclass(frozen=True)
class Target:
    """Which part of an endpoint answers, with which attributes, and whether it is to stream."""

    attributes: str | None = None
    component: str | None = None
    container: str | None = None
    model: str | None = None
    streams: bool = False

    def request(self, endpoint: str) -> dict[str, str]:
        """Return the consequence of an invocation's result."""
        given = {
            "CustomAttributes": self.attributes,
            "InferenceComponentName": components.name_of(endpoint, self.component) if self.component else None,
            "TargetContainerHostname": self.container,
            "TargetModel": self.model,
        }
        return {name: value for name, value in given.items() if value}


def invoke(aws: Aws, endpoint: str, body: Path, content_type: str, to: Target) -> Iterator[bytes]:
    """Send a file to an endpoint and yield the response; raise botocore's ClientError (ModelError holds ours).

    A stream comes in parts, another response as a whole. Raises Refused for a stream that ends with an error.
    """
    request = {"EndpointName": endpoint, "Body": body.read_bytes(), "ContentType": content_type, **to.request(endpoint)}
    if to.streams and to.model:
        raise Refused("--model: the API has no TargetModel for streams; leave --stream out")
    if not to.streams:
        answer = aws.call("sagemaker-runtime", "invoke_endpoint", **request)
        yield answer["Body"].read() if answer else b""
        return
    for event in aws.call("sagemaker-runtime", "invoke_endpoint_with_response_stream", **request).get("Body", ()):
        if "PayloadPart" not in event:
            raise Refused(f"the stream ended early: {event}")
        yield event["PayloadPart"]["Bytes"]


def invoke_asynchronously(aws: Aws, endpoint: str, source: str, content_type: str) -> str:
    """Hand an s3:// object to an asynchronous endpoint and return where its response will be."""
    split_s3(source)
    request = {"EndpointName": endpoint, "InputLocation": source, "ContentType": content_type}
    return str(aws.call("sagemaker-runtime", "invoke_endpoint_async", **request).get("OutputLocation", ""))
