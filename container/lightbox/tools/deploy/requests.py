"""The requests to AWS, as pure functions of a plan."""

from __future__ import annotations

from typing import Any, Literal

from lightbox.tools.deploy.deployment import VARIANT, Kind, Plan

Request = dict[str, Any]
TAGS = [{"Key": "application", "Value": "lightbox"}]


def model(plan: Plan) -> Request:
    """Return CreateModel."""
    request: Request = {"ModelName": plan.model_name, "ExecutionRoleArn": plan.role, "Tags": TAGS}
    container: Request = {"Image": plan.image, "Environment": plan.environment}
    if plan.containers:
        several = [
            {**container, "ContainerHostname": name, "ModelDataUrl": data} for name, data in plan.containers.items()
        ]
        return request | {"Containers": several, "InferenceExecutionConfig": {"Mode": "Direct"}}
    if plan.model_data:
        container["ModelDataUrl"] = plan.model_data
    if plan.multi_model:
        container["Mode"] = "MultiModel"
    return request | {"PrimaryContainer": container}


def endpoint_config(plan: Plan) -> Request:
    """Return CreateEndpointConfig. Data capture is off: no DataCaptureConfig."""
    variant: Request = {"VariantName": VARIANT, "ModelName": plan.model_name}
    if plan.kind is Kind.COMPONENTS:  # these name the models
        del variant["ModelName"]
    if plan.kind is Kind.SERVERLESS:
        variant["ServerlessConfig"] = {"MemorySizeInMB": plan.memory_mb, "MaxConcurrency": plan.concurrency}
    else:
        variant |= {
            "InstanceType": plan.instance_type,
            "InitialInstanceCount": plan.instances,
            "InitialVariantWeight": 1.0,
            "ContainerStartupHealthCheckTimeoutInSeconds": plan.startup_seconds,
        }
    if plan.kind in (Kind.REAL_TIME, Kind.COMPONENTS):
        # The cost of requests depends on the image's size: the least busy instance is a better choice.
        variant["RoutingConfig"] = {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}
    request: Request = {"EndpointConfigName": plan.config_name, "ProductionVariants": [variant], "Tags": TAGS}
    if plan.kind is Kind.COMPONENTS:
        request["ExecutionRoleArn"] = plan.role
    if plan.kind in (Kind.REAL_TIME, Kind.COMPONENTS):
        # SageMaker reads /metrics of each container and keeps it in CloudWatch (docs/scaling.md).
        request["MetricsConfig"] = {"EnableDetailedObservability": True, "MetricPublishFrequencyInSeconds": 10}
    if plan.kind is Kind.ASYNCHRONOUS:
        request["AsyncInferenceConfig"] = {
            "ClientConfig": {"MaxConcurrentInvocationsPerInstance": plan.concurrency},
            "OutputConfig": {"S3OutputPath": plan.output, "S3FailurePath": f"{str(plan.output).rstrip('/')}-failed"},
        }
    return request


def endpoint(plan: Plan) -> Request:
    """Return CreateEndpoint."""
    return {"EndpointName": plan.endpoint, "EndpointConfigName": plan.config_name, "Tags": TAGS}


def rollback_alarm(name: str, most: int) -> Request:
    """Return PutMetricAlarm: more than ``most`` responses of 5xx in a minute, twice in a row."""
    return {
        "AlarmName": alarm_name(name),
        "AlarmDescription": f"Rolls an update of the endpoint {name} back",
        "Namespace": "AWS/SageMaker",
        "MetricName": "Invocation5XXErrors",
        "Dimensions": [{"Name": "EndpointName", "Value": name}, {"Name": "VariantName", "Value": VARIANT}],
        "Statistic": "Sum",
        "Period": 60,
        "EvaluationPeriods": 2,
        "Threshold": float(most),
        "ComparisonOperator": "GreaterThanThreshold",
        "TreatMissingData": "notBreaching",
    }


def alarm_name(endpoint_name: str) -> str:
    """Return the name of an endpoint's rollback alarm."""
    return f"{endpoint_name}-rollback"


def update(plan: Plan, way: Literal["blue-green", "rolling"], step: int, wait: int, keep: bool) -> Request:
    """Return UpdateEndpoint: ``step`` percent at a time, ``wait`` seconds between, rolled back by the alarm.

    With ``keep`` there are as many instances afterwards as now, whatever the plan says: autoscaling chose that number.
    """
    request: Request = {"EndpointName": plan.endpoint, "EndpointConfigName": plan.config_name}
    if plan.kind is Kind.SERVERLESS:  # there are no machines to replace step by step
        return request
    size = {"Type": "CAPACITY_PERCENT", "Value": step}
    deployment: Request = {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": alarm_name(plan.endpoint)}]}}
    if way == "rolling":
        deployment["RollingUpdatePolicy"] = {"MaximumBatchSize": size, "WaitIntervalInSeconds": wait}
    else:
        deployment["BlueGreenUpdatePolicy"] = {
            "TrafficRoutingConfiguration": {"Type": "CANARY", "CanarySize": size, "WaitIntervalInSeconds": wait},
            "TerminationWaitInSeconds": wait,
        }
    return request | {"RetainAllVariantProperties": keep, "DeploymentConfig": deployment}


def transform(plan: Plan, name: str, source: str, content_type: str, payload_mb: int) -> Request:
    """Return CreateTransformJob: every object under ``source`` is one request, its response an object in the output."""
    return {
        "TransformJobName": name,
        "ModelName": plan.model_name,
        "BatchStrategy": "SingleRecord",
        "MaxConcurrentTransforms": plan.concurrency,
        "MaxPayloadInMB": payload_mb,
        "TransformInput": {
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": source}},
            "ContentType": content_type,
            "SplitType": "None",
        },
        "TransformOutput": {"S3OutputPath": plan.output, "Accept": "application/json"},
        "TransformResources": {"InstanceType": plan.instance_type, "InstanceCount": plan.instances},
        "Tags": TAGS,
    }
