"""Takes away what deploy and update made."""

from __future__ import annotations

import re

from deployment import requests
from deployment.aws import Aws, Refused
from model_zoo import say


def delete(aws: Aws, endpoint: str) -> None:
    """Delete an endpoint with its scaling, alarm, configurations and models. The image and the archives stay.

    Raises Refused when there is no such endpoint.
    """
    if aws.find("sagemaker", "describe_endpoint", EndpointName=endpoint) is None and not aws.dry_run:
        raise Refused(f"endpoint {endpoint} is not there")
    _stop_scaling(aws, endpoint)
    aws.call("cloudwatch", "delete_alarms", AlarmNames=[requests.alarm_name(endpoint)])
    aws.call("sagemaker", "delete_endpoint", EndpointName=endpoint)
    say.progress(f"endpoint {endpoint}: deleted")
    for config in _ours(aws, "list_endpoint_configs", "EndpointConfigName", endpoint):
        aws.call("sagemaker", "delete_endpoint_config", EndpointConfigName=config)
        say.progress(f"configuration {config}: deleted")
    for model in _ours(aws, "list_models", "ModelName", endpoint):
        aws.call("sagemaker", "delete_model", ModelName=model)
        say.progress(f"model {model}: deleted")


def _stop_scaling(aws: Aws, endpoint: str) -> None:
    target = requests.scalable_target(endpoint)
    found = aws.find(
        "application-autoscaling",
        "describe_scalable_targets",
        ServiceNamespace=target["ServiceNamespace"],
        ResourceIds=[target["ResourceId"]],
    )
    if found and found["ScalableTargets"]:
        aws.call("application-autoscaling", "deregister_scalable_target", **target)
        say.progress("scaling: deleted")


def _ours(aws: Aws, operation: str, field: str, endpoint: str) -> list[str]:
    """Return the names that a plan for this endpoint gives, those of earlier updates too."""
    pattern = re.compile(re.escape(endpoint) + "-[0-9a-f]{12}")
    return [name for name in aws.names(operation, field, endpoint) if pattern.fullmatch(name)]
