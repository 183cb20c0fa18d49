"""Deletes everything that deploy and update have made."""

from __future__ import annotations

import re

from lightbox.base.telemetry import say
from lightbox.tools.deploy import requests
from lightbox.tools.deploy.aws_calls import Aws, Refused
from lightbox.tools.deploy.components import remove_all
from lightbox.tools.deploy.scaling import backlog_alarm_name, stop_scaling


def delete(aws: Aws, endpoint: str, pause: float = 10.0) -> None:
    """Delete an endpoint with its components, scaling, alarms, configurations and models; image and archives stay.

    Leftovers without an endpoint (a model of a transform job, an interrupted deletion) are deleted too.
    Raises Refused when there is nothing of it.
    """
    there = aws.dry_run or aws.find("sagemaker", "describe_endpoint", EndpointName=endpoint) is not None
    configs = _ours(aws, "list_endpoint_configs", "EndpointConfigName", endpoint)
    models = _ours(aws, "list_models", "ModelName", endpoint)
    if not (there or configs or models):
        raise Refused(f"endpoint {endpoint} is not there, nor a configuration or model of it")
    stop_scaling(aws, endpoint)
    # One that is not there is no error.
    alarms = [requests.alarm_name(endpoint), backlog_alarm_name(endpoint)]
    aws.call("cloudwatch", "delete_alarms", AlarmNames=alarms)
    if there and _has_components(aws, endpoint):
        remove_all(aws, endpoint, pause)
    if there:
        aws.call("sagemaker", "delete_endpoint", EndpointName=endpoint)
        _say(aws, f"endpoint {endpoint}")
    for config in configs:
        aws.call("sagemaker", "delete_endpoint_config", EndpointConfigName=config)
        _say(aws, f"configuration {config}")
    for model in models:
        aws.call("sagemaker", "delete_model", ModelName=model)
        _say(aws, f"model {model}")
    if aws.dry_run:  # which no confirmation was requested for
        _say(aws, f"scaling of {endpoint}, configurations and models {endpoint}-<12 hexadecimal digits>")


def _has_components(aws: Aws, endpoint: str) -> bool:
    """Return whether an endpoint's configuration leaves the models to components."""
    if aws.dry_run:
        return False
    name = aws.call("sagemaker", "describe_endpoint", EndpointName=endpoint)["EndpointConfigName"]
    config = aws.find("sagemaker", "describe_endpoint_config", EndpointConfigName=name) or {}
    return any("ModelName" not in variant for variant in config.get("ProductionVariants", []))


def _say(aws: Aws, what: str) -> None:
    say.progress(f"{what}: {'would be deleted' if aws.dry_run else 'deleted'}")


def _ours(aws: Aws, operation: str, field: str, endpoint: str) -> list[str]:
    """Return the names that a plan for this endpoint gives, those of earlier updates too."""
    pattern = re.compile(re.escape(endpoint) + "-[0-9a-f]{12}")
    return [name for name in aws.names(operation, field, endpoint) if pattern.fullmatch(name)]
