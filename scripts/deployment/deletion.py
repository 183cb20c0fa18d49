"""Takes away what deploy and update made."""

from __future__ import annotations

import re

from deployment import requests
from deployment.aws import Aws, Refused
from deployment.scaling import backlog_alarm_name, stop_scaling
from model_zoo import say


def delete(aws: Aws, endpoint: str) -> None:
    """Delete an endpoint with its scaling, alarms, configurations and models. The image and the archives stay.

    Raises Refused when there is no such endpoint.
    """
    if aws.find("sagemaker", "describe_endpoint", EndpointName=endpoint) is None and not aws.dry_run:
        raise Refused(f"endpoint {endpoint} is not there")
    stop_scaling(aws, endpoint)
    # One that is not there is no error.
    alarms = [requests.alarm_name(endpoint), backlog_alarm_name(endpoint)]
    aws.call("cloudwatch", "delete_alarms", AlarmNames=alarms)
    aws.call("sagemaker", "delete_endpoint", EndpointName=endpoint)
    say.progress(f"endpoint {endpoint}: deleted")
    for config in _ours(aws, "list_endpoint_configs", "EndpointConfigName", endpoint):
        aws.call("sagemaker", "delete_endpoint_config", EndpointConfigName=config)
        say.progress(f"configuration {config}: deleted")
    for model in _ours(aws, "list_models", "ModelName", endpoint):
        aws.call("sagemaker", "delete_model", ModelName=model)
        say.progress(f"model {model}: deleted")


def _ours(aws: Aws, operation: str, field: str, endpoint: str) -> list[str]:
    """Return the names that a plan for this endpoint gives, those of earlier updates too."""
    pattern = re.compile(re.escape(endpoint) + "-[0-9a-f]{12}")
    return [name for name in aws.names(operation, field, endpoint) if pattern.fullmatch(name)]
